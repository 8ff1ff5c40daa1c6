//! `codebox explain`: shows where a program would run and why, without running any of it.

use codebox_core::{Isolation, ResultKind};
use codebox_service::choice::lacks;
use codebox_service::{
    Admitted, Candidate, Choice, Looked, Need, Next, NoRoute, PlanError, Program, Rejected, Wanted, admit, image_for,
    look, next,
};

use crate::answer;
use crate::args::RunArgs;
use crate::commands::run::request;
use crate::failure::Failure;
use crate::host::Host;
use crate::render::{Explained, Image, NeedLine, Tier};

/// Prints the explanation. If the program could not run, the status is that of the refused run.
pub(super) fn explain(args: RunArgs, host: &dyn Host) -> Result<u8, Failure> {
    let json = args.json;
    let explained = match look_at(args, host) {
        Ok(explained) => explained,
        Err(failure) if json => return Ok(answer::print_failure(&failure)),
        Err(failure) => return Err(failure),
    };
    let Explained { failure, .. } = &explained;
    match (json, failure) {
        (true, None) => answer::print_json(&explained),
        (true, Some(failure)) => answer::print_json(&explained).map(|_| failure.exit_status()),
        (false, None) => answer::print(&explained.to_string()),
        (false, Some(failure)) => {
            answer::print(&explained.to_string())?;
            Err(failure.clone())
        }
    }
}

fn look_at(args: RunArgs, host: &dyn Host) -> Result<Explained, Failure> {
    let policy = host.policy()?;
    let engine = args.engine.clone().or_else(|| policy.engine.clone());
    let request = request(args, None)?;
    let subject = match &request.program {
        Program::File(path) => path.display().to_string(),
        Program::Inline(_) => "this text".to_owned(),
        Program::Stdin(_) => "the program on standard input".to_owned(),
        Program::Command(words) => words.join(" "),
    };
    let admitted = admit(request, &policy, host.surroundings())?;
    let packages = host.packages(&admitted, engine.as_deref(), &codebox_service::Silent)?;
    let admitted = admitted.with_packages(&packages);
    let looked = look(&admitted, host.analyzer()?).map_err(PlanError::from)?;
    let wanted = Wanted::of_admitted(&admitted, &looked, policy.escalation);
    let candidates = asked(host, engine.as_deref())?;
    let (choice, failure) = match next(&wanted, &candidates) {
        Next::Run(choice) => (Ok(choice), None),
        Next::Nothing(why) => {
            let failure = Failure::from(PlanError::from(why.clone()));
            (Err(why), Some(failure))
        }
        Next::Probe(backend) => {
            let line = format!("the backend {backend} was asked and has not answered");
            return Err(Failure::new(ResultKind::InternalError, line));
        }
    };
    let image = match &choice {
        Ok(choice) if choice.isolation == Isolation::Wasm => Some(image(&admitted, &looked, host)?),
        _ => None,
    };
    let needs = looked.needs.powers.iter().map(NeedLine::from).collect();
    let tiers = candidates.iter().map(|candidate| tier(candidate, &choice, &wanted, &looked.needs.powers)).collect();
    let notes = packages.notes.into_iter().chain(looked.unknown).collect();
    Ok(Explained::new(subject, (choice.ok(), failure), image, notes, needs, tiers))
}

/// Probes every backend, including those that a run would not probe.
fn asked(host: &dyn Host, engine: Option<&str>) -> Result<Vec<Candidate>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        let line = format!("cannot ask the backends: {error}");
        Failure::new(ResultKind::InternalError, line)
    })?;
    let ask = |backend| Candidate {
        found: Some(runtime.block_on(codebox_core::Backend::probe(backend))),
        ..Candidate::of(backend)
    };
    Ok(host.backends(engine)?.into_iter().map(ask).collect())
}

/// Returns the image that a run would start from. Builds no missing image.
fn image(admitted: &Admitted, looked: &Looked, host: &dyn Host) -> Result<Image, Failure> {
    let images = host.catalog()?.images(Some(&admitted.job().language))?;
    let facts: Vec<_> = images.iter().map(codebox_service::ImageEntry::facts).collect();
    let image = image_for(admitted, &looked.needs, &facts).map_err(PlanError::from)?;
    Ok(Image { name: image.name, reason: image.reason })
}

fn tier(candidate: &Candidate, choice: &Result<Choice, NoRoute>, wanted: &Wanted, needs: &[Need]) -> Tier {
    let backend = candidate.backend.to_string();
    let rejected: &[Rejected] = match choice {
        Ok(choice) => &choice.rejected,
        Err(none) => &none.rejected,
    };
    let mut tier = Tier {
        isolation: candidate.isolation.as_str(),
        chosen: choice.as_ref().is_ok_and(|choice| choice.backend == candidate.backend),
        available: false,
        against: None,
        fix: None,
        lacks: Vec::new(),
        backend,
    };
    if let Some(against) = rejected.iter().find(|against| against.candidate == tier.backend) {
        (tier.against, tier.fix) = (Some(against.reason.clone()), Some(against.fix.clone()));
    }
    match &candidate.found {
        Some(Ok(able)) => {
            tier.available = true;
            tier.lacks = lacks(able, wanted.demand(), needs);
        }
        Some(Err(why)) => (tier.against, tier.fix) = (Some(why.reason.clone()), Some(why.fix.clone())),
        None => {}
    }
    tier
}
