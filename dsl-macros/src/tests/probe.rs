use super::*;
#[test]
fn probe() {
    let text = std::fs::read_to_string(std::env::var("PROBES").unwrap()).unwrap();
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        let (args, item) = line.split_once("@@").unwrap();
        println!("\n>>> {line}");
        if args.parse::<TokenStream>().is_err() || item.parse::<TokenStream>().is_err() { println!("  !!! does not lex"); continue }
        let r = std::panic::catch_unwind(|| run(args, item));
        match r {
            Err(_) => println!("  PANIC"),
            Ok((out, errors)) => {
                for (m, u) in &errors { println!("  - [{u}] {m}"); }
                if errors.is_empty() { println!("  ok") }
                let all = out.to_string();
                if let Err(e) = syn::parse_str::<syn::File>(&all) { println!("  !!! output does not parse: {e}"); }
                if std::env::var("SHOW").is_ok() { println!("{all}"); }
            }
        }
    }
}
