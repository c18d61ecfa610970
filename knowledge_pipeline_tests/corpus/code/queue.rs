//! A queue with priorities.

use std::collections::{BinaryHeap, HashMap as Map};
use std::fmt;
use serde::Serialize;

pub const CAPACITY: usize = 64;
static NAME: &str = "queue";

pub type Result<T> = std::result::Result<T, QueueError>;

/// One job to do.
#[derive(Debug, Clone, Serialize)]
pub struct Job {
    pub id: u64,
    priority: u8,
}

#[derive(Debug)]
pub enum QueueError {
    Full,
    Empty { since: u64 },
}

/// Something that can be waited for.
pub trait Wait: Send + fmt::Debug {
    fn wait(&self) -> u64;

    fn patient(&self) -> bool {
        self.wait() > 10
    }
}

pub struct Queue<T> {
    heap: BinaryHeap<T>,
}

impl<T: Ord> Queue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Queue { heap: BinaryHeap::new() }
    }

    #[inline]
    pub fn push(&mut self, job: T) -> Result<()> {
        if self.heap.len() >= CAPACITY {
            return Err(QueueError::Full);
        }
        match self.heap.peek() {
            Some(_) => self.heap.push(job),
            None => {}
        }
        Ok(())
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job №{}", self.id)
    }
}

macro_rules! job {
    ($id:expr) => {
        Job { id: $id, priority: 0 }
    };
}

pub(crate) async fn drain(map: Map<u64, Job>) -> usize {
    let mut n = 0;
    for _ in map.values() {
        n += 1;
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes() {
        assert!(Queue::new().push(1).is_ok());
    }
}
