use super::kind::MappedPath;
use super::map::{Inside, Mount, PathMap, transplant};

impl<A: MappedPath, B: MappedPath> PathMap<A, B> {
    /// The map from this map's outside to `inner`'s inside: host to VM, then VM to guest.
    ///
    /// It maps exactly what the two maps do one after the other, and a path is writable through it only if it
    /// is through both.
    #[must_use]
    pub fn then<C: MappedPath>(&self, inner: &PathMap<B, C>) -> PathMap<A, C> {
        let mut mounts: Vec<Mount<A, C>> = Vec::new();
        let mut holes: Vec<C> = inner.holes.clone();
        for step in &inner.mounts {
            match self.place_of(&step.from) {
                Inside::Mounted(base) => match transplant(&step.from, &base.to, &base.from) {
                    Ok(from) => {
                        let access = base.access.and(step.access);
                        mounts.push(Mount { from, to: step.to.clone(), access });
                    }
                    Err(_) => holes.push(step.to.clone()),
                },
                // Nothing outside stands behind it, yet it covers whatever a wider mount would show there.
                Inside::Hole | Inside::Nowhere => holes.push(step.to.clone()),
            }
            // Mounts of ours that lie deeper than this step become mounts of their own, where still seen.
            for deeper in self.mounts.iter().filter(|m| lies_below(&m.to, &step.from)) {
                if let Ok(to) = transplant(&deeper.to, &step.from, &step.to)
                    && inner.is_seen_through(&to, step)
                {
                    let access = deeper.access.and(step.access);
                    mounts.push(Mount { from: deeper.from.clone(), to, access });
                }
            }
            for hole in self.holes.iter().filter(|hole| lies_below(*hole, &step.from)) {
                if let Ok(to) = transplant(hole, &step.from, &step.to)
                    && inner.is_seen_through(&to, step)
                {
                    holes.push(to);
                }
            }
        }
        PathMap { mounts, holes }
    }
}

fn lies_below<P: MappedPath>(path: &P, ancestor: &P) -> bool {
    path.below(ancestor).is_some_and(|mut rest| rest.next().is_some())
}
