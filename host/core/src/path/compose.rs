use super::kind::MappedPath;
use super::map::{Inside, Mount, PathMap, transplant};

impl<A: MappedPath, B: MappedPath> PathMap<A, B> {
    /// Composes two maps into one from this map's outside to `inner`'s inside, such as host to VM and VM to guest.
    ///
    /// The composed map maps exactly as the two maps do in sequence. A path is writable through the composed map only
    /// if it is writable through both.
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
                // The step has no counterpart outside, but it still covers this part of a wider mount.
                Inside::Hole | Inside::Nowhere => holes.push(step.to.clone()),
            }
            // Mounts of `self` below the step become separate mounts, unless another mount of `inner` hides them.
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
