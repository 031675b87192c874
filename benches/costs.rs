//! The time of every cost centre, by criterion, as a rate. Nothing passes or fails by it.
//!
//!     cargo bench --bench costs                  all
//!     cargo bench --bench costs -- ws/           these

mod cases;

use std::hint::black_box;

use cases::{Meter, Work};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

struct Stopwatch<'a>(&'a mut Criterion);

impl Stopwatch<'_> {
    /// What is in front of the last slash is the group.
    fn bench(&mut self, name: &str, work: Work, run: impl FnMut(&mut criterion::Bencher<'_>)) {
        let (group, name) = name.rsplit_once('/').expect("a case is named by its group first");
        let mut group = self.0.benchmark_group(group);
        group.throughput(match work {
            Work::Bytes(count) => Throughput::Bytes(count as u64),
            Work::Events(count) => Throughput::Elements(count as u64),
        });
        group.bench_function(name, run);
        group.finish();
    }
}

impl Meter for Stopwatch<'_> {
    fn again<S, O>(
        &mut self,
        name: &str,
        work: Work,
        mut state: S,
        mut run: impl FnMut(&mut S) -> O,
        check: impl Fn(&S, &O),
    ) {
        self.bench(name, work, |b| {
            let result = run(&mut state);
            check(&state, &result);
            b.iter(|| run(black_box(&mut state)));
        });
    }

    fn fresh<S, O>(
        &mut self,
        name: &str,
        work: Work,
        mut input: impl FnMut() -> S,
        mut run: impl FnMut(&mut S) -> O,
        check: impl Fn(&S, &O),
    ) {
        self.bench(name, work, |b| {
            let mut state = input();
            let result = run(&mut state);
            check(&state, &result);
            b.iter_batched_ref(&mut input, |state| run(black_box(state)), BatchSize::LargeInput);
        });
    }
}

fn costs(criterion: &mut Criterion) {
    cases::all(&mut Stopwatch(criterion));
}

criterion_group!(benches, costs);
criterion_main!(benches);
