//! Scenarios as async code on virtual time, for those who test their own applications against a faulty cluster.
//!
//! The engine runs the cluster on one event queue and needs no runtime. Async code needs one whose clock is virtual and whose
//! scheduling is seeded: that is [`Madsim`], behind the small trait [`Driver`], so that it can be replaced.

use std::{cell::RefCell, future::Future, time::Duration};

use crate::{cluster::Cluster, time::SimTime};

#[cfg(all(feature = "madsim", not(madsim)))]
compile_error!(
    "the madsim driver needs `--cfg madsim`. The workspace's .cargo/config.toml sets it; an exported RUSTFLAGS replaces \
     that: unset RUSTFLAGS, or add `--cfg madsim` to it. Without async scenarios, build with `--no-default-features`."
);

/// A runtime with a virtual clock.
pub trait Driver {
    /// Returns how much virtual time has passed.
    fn elapsed(&self) -> SimTime;
    /// Lets virtual time pass.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()>;
}

/// A cluster that runs beside async code, in step with its clock.
#[derive(Debug)]
pub struct Kit<D> {
    driver: D,
    cluster: RefCell<Cluster>,
    /// The cluster's time at the driver's zero.
    origin: SimTime,
}

impl<D: Driver> Kit<D> {
    /// Ties a cluster to a driver's clock; its present is the driver's.
    pub fn new(driver: D, cluster: Cluster) -> Self {
        let passed = driver.elapsed().as_nanos();
        let origin = SimTime::from_nanos(cluster.now().as_nanos().saturating_sub(passed));
        Self {
            driver,
            cluster: RefCell::new(cluster),
            origin,
        }
    }

    /// Looks at the cluster, or does something to it, now.
    pub fn with<T>(&self, work: impl FnOnce(&mut Cluster) -> T) -> T {
        work(&mut self.cluster.borrow_mut())
    }

    /// Lets time pass, for the cluster and for all other tasks.
    pub async fn pass(&self, duration: Duration) {
        self.until(duration, |_| false).await;
    }

    /// Lets time pass until something holds; returns whether it does within the limit.
    pub async fn until(&self, limit: Duration, done: impl Fn(&Cluster) -> bool) -> bool {
        let end = self.present() + limit;
        loop {
            let now = self.present();
            let reached = self.with(|cluster| cluster.run(now.min(end), &done));
            if reached || now >= end {
                return reached;
            }
            self.driver.sleep(STEP).await;
        }
    }

    /// Ends the test and returns the cluster.
    pub fn into_cluster(self) -> Cluster {
        self.cluster.into_inner()
    }

    fn present(&self) -> SimTime {
        self.origin + (self.driver.elapsed() - SimTime::START)
    }
}

/// The finest step of async code; within it, the cluster's own events keep their exact times.
const STEP: Duration = Duration::from_millis(1);

#[cfg(all(feature = "madsim", madsim))]
pub use on_madsim::{Madsim, block_on};

#[cfg(all(feature = "madsim", madsim))]
mod on_madsim {
    use std::{future::Future, time::Duration};

    use madsim::{
        runtime::Runtime,
        time::{TimeHandle, sleep},
    };

    use super::Driver;
    use crate::time::SimTime;

    /// The clock of the madsim runtime that polls the present task.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Madsim;

    impl Driver for Madsim {
        fn elapsed(&self) -> SimTime {
            SimTime::START + TimeHandle::current().elapsed()
        }

        fn sleep(&self, duration: Duration) -> impl Future<Output = ()> {
            sleep(duration)
        }
    }

    /// Runs async code to its end on virtual time, its scheduling drawn from a seed.
    pub fn block_on<F: Future>(seed: u64, scenario: F) -> F::Output {
        Runtime::with_seed_and_config(seed, madsim::Config::default()).block_on(scenario)
    }
}
