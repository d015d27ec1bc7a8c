//! What of many results reaches whoever reads them: the merged message and the artifacts that it points to.

use crate::kit::Play;
use sortie::coordinator::RunStatus;

fn report(node: &str, summary: &str) -> String {
    format!(
        "[[reply]]\nnode = \"{node}\"\ncalls = [{{ name = \"report\", args = {{ status = \"done\", summary = \"{summary}\" }} }}]\n"
    )
}

/// `part` runs once per item, `answer` rests on all of them.
fn fan_in(items: usize) -> String {
    let items: Vec<String> = (0..items).map(|item| item.to_string()).collect();
    format!(
        "[[node]]\nid = \"part\"\nforeach = [{}]\nprompt = \"p\"\n[[node]]\nid = \"answer\"\nneeds = [\"part\"]\nprompt = \"a\"\n",
        items.join(",")
    )
}

#[tokio::test(start_paused = true)]
async fn the_result_that_nobody_has_used_is_never_the_one_left_out() {
    let script = report("part", &"word ".repeat(100)) + &report("answer", "THE ANSWER");
    let merged = Play::new(&script).plan(&fan_in(1_000)).run().await.end.answer;
    assert!(merged.contains("THE ANSWER"), "{}", &merged[merged.len() - 500..]);
    assert!(merged.contains("more results left out for lack of room"));
    assert!(merged.len() <= 130_000, "{}", merged.len());
}

#[tokio::test(start_paused = true)]
async fn a_place_that_everybody_cites_does_not_list_everybody() {
    let script = "[[reply]]\nnode = \"part\"\ncalls = [{ name = \"report\", args = { status = \"done\", summary = \"s\", findings = [{ claim = \"c\", evidence = [{ path = \"a.rs\", line = 1, quote = \"fn a\" }] }] } }]\n";
    let plan = "[[node]]\nid = \"part\"\nforeach = [1,2,3,4,5,6,7,8,9,10]\nprompt = \"p\"\n";
    let merged = Play::new(script).plan(plan).run().await.end.answer;
    let line = merged.lines().find(|line| line.contains("is cited by")).unwrap();
    assert_eq!(line, "- a.rs:1 is cited by part[0], part[1], part[2], part[3], part[4], part[5] and 4 more");
}

#[tokio::test(start_paused = true)]
async fn the_merged_message_reaches_the_coordinator_whole_and_what_it_points_to_can_be_read() {
    let nodes: Vec<String> = (0..60).map(|at| format!("{{ id = \"n{at}\", prompt = \"x\" }}")).collect();
    let long = "s".repeat(1_400);
    let script = format!(
        "[[reply]]\nnode = \"coordinator\"\ncalls = [{{ name = \"submit_plan\", args = {{ name = \"p\", node = [{}] }} }}]\n",
        nodes.join(",")
    ) + "[[reply]]\nnode = \"coordinator\"\ncalls = [{ name = \"read_file\", args = { file_path = \"artifact:n30/report.md\" } }]\n"
        + "expect = { contains = [\"## n0: \", \"## n29: \", \"## n59: \"], absent = [\"left out\"] }\n"
        + "[[reply]]\nnode = \"coordinator\"\ntext = \"read\"\nexpect = { contains = [\"THE BODY\"] }\n"
        + &format!(
            "[[reply]]\nnode = \"*\"\ncalls = [{{ name = \"report\", args = {{ status = \"done\", summary = \"{long}\", body = \"THE BODY\" }} }}]\n"
        );
    // Every node takes the same reply, each in its own conversation.
    let played = Play::new(&script).task("t").run().await;
    assert_eq!(played.end.status, RunStatus::Succeeded, "{:?}", played.end.problem);
}

#[tokio::test(start_paused = true)]
async fn a_later_node_reads_the_artifacts_of_instances_further_back() {
    let plan = "[[node]]\nid = \"part\"\nforeach = [1,2]\nprompt = \"p\"\n[[node]]\nid = \"between\"\nneeds = [\"part\"]\nprompt = \"b\"\n[[node]]\nid = \"last\"\nneeds = [\"between\"]\nprompt = \"l\"\n";
    let script = "[[reply]]\nnode = \"part\"\ncalls = [{ name = \"report\", args = { status = \"done\", summary = \"s\", body = \"THE BODY\" } }]\n".to_string()
        + &report("between", "b")
        + "[[reply]]\nnode = \"last\"\ncalls = [{ name = \"read_file\", args = { file_path = \"artifact:part[1]/report.md\" } }]\n"
        + &report("last", "l").replace("[[reply]]\n", "[[reply]]\nexpect = { contains = [\"THE BODY\"] }\n");
    let played = Play::new(&script).plan(plan).run().await;
    assert_eq!(played.end.status, RunStatus::Succeeded, "{:?}", played.end.problem);
}

#[tokio::test(start_paused = true)]
async fn all_that_is_wrong_with_a_submitted_plan_is_told_whatever_the_schema_says_first() {
    let bad = "calls = [{ name = \"submit_plan\", args = { node = [{ id = \"a\", prompt = 7 }, { id = \"b\", prompt = \"x\", needs = [\"zz\"] }] } }]";
    let good = "calls = [{ name = \"submit_plan\", args = { name = \"p\", node = [{ id = \"a\", prompt = \"x\" }, { id = \"b\", prompt = \"x\", needs = \"a\" }] } }]";
    let script = format!(
        "[[reply]]\nnode = \"coordinator\"\n{bad}\n[[reply]]\nnode = \"coordinator\"\n{good}\nexpect = {{ contains = [\"`name`\", \"`prompt`\", \"`zz`\"] }}\n[[reply]]\nnode = \"coordinator\"\ntext = \"done\"\n"
    ) + &report("a", "a")
        + &report("b", "b");
    let played = Play::new(&script).task("t").run().await;
    assert_eq!(played.end.status, RunStatus::Succeeded, "{:?}", played.end.problem);
}
