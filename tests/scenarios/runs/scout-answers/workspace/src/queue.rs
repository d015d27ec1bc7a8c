/// Holds jobs until a worker takes them.
pub struct Queue {
    jobs: Vec<Job>,
    limit: usize,
}
