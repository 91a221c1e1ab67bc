//! The schema registries that a configuration names.

use super::assemble::AssembleError;
use crate::config::{Config, Draft, Sources};
use crate::connect::converter::Converters;
use crate::registry::{LoginSources, Options, Registries};

/// Returns the registries for keys and values. The rest of the configuration need not work.
///
/// # Errors
///
/// When the converters cannot be used, or the options of their registries are invalid.
pub(in crate::cli) fn of_sources(sources: &Sources) -> Result<Registries, AssembleError> {
    let mut draft = Config::draft(sources)?.pardoned();
    let default =
        if draft.config().sends_changes() { Converters::of_changes() } else { Converters::default() };
    let converters = draft.section("", |options| Converters::read_or(options, default));
    let options = converters.map(|converters| of_draft(&mut draft, &converters));
    let (_, [key, value]) = draft.finish(options)?;
    Ok(Registries::new(key, value)?)
}

/// Returns the options for keys and for values.
pub(in crate::cli) fn of_draft(draft: &mut Draft, converters: &Converters) -> [Option<Options>; 2] {
    [&converters.key, &converters.value].map(|converter| {
        let registered = converter.registered()?;
        let settings = draft.config().settings().clone();
        for (key, setting) in settings.iter() {
            let known = Options::check_known(registered, key, &setting.value);
            let _kept = draft.keep(known);
        }
        let reread = |key: &str| settings.reread(key);
        let sources = LoginSources { reread: &reread, kafka: draft.config().kafka.token_source() };
        draft.section("", |options| Ok(Options::read(registered, options, &sources))).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(overrides: &[&str]) -> Result<usize, String> {
        let overrides = overrides.iter().map(|text| (*text).to_owned()).collect();
        let registries = of_sources(&Sources { overrides, ..Sources::default() });
        registries.map(|registries| registries.clients().count()).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_but_the_converters_matters() {
        const AVRO: &str = "value.converter=io.confluent.connect.avro.AvroConverter";
        let url = "value.converter.schema.registry.url=http://registry:8081";
        assert_eq!(read(&["slot.name=Orders!", "no.such.key=1"]), Ok(0));
        assert_eq!(read(&[AVRO, url, "database.sslmode=perhaps"]), Ok(1));
        let told = read(&[AVRO, "database.sslmode=perhaps"]).unwrap_err();
        assert!(told.contains("value.converter.schema.registry.url") && !told.contains("sslmode"), "{told}");
    }
}
