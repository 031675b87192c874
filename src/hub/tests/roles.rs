//! Which model a role points at, and who may change it for whom.

use super::world::{WAKE, World, step, subscribe};

#[test]
fn set_model_repoints_a_role_for_the_service_or_for_one_agent() {
    let set = |model: &str| format!(r#"{{"type":"set_model","role":"main","model":"{model}"}}"#);
    for per_agent in [false, true] {
        let mut world =
            World::new(vec![step(&["x"])], |options| options.roles_per_agent = per_agent);
        let tags = [world.connect(0), world.connect(1)];
        world.send(tags[0], &set("nobody/model"));
        let error = world.peer(tags[0]).frames.remove(0);
        assert!(error.starts_with(r#"{"type":"error","code":"bad_frame""#), "{error}");
        world.send(tags[0], &set("echo/deep/model"));
        for (tag, model) in tags
            .into_iter()
            .zip(["echo/deep/model", if per_agent { "mine/model" } else { "echo/deep/model" }])
        {
            world.send(tag, &subscribe(2));
            world.send(tag, WAKE);
            world.settle();
            let step = world.peer(tag).frames.remove(0);
            assert!(step.contains(&format!(r#""model":"{model}""#)), "{step}");
        }
    }
}

#[test]
fn the_table_of_roles_is_bounded() {
    let mut world = World::new(vec![step(&["x"])], |_| {});
    let tag = world.connect(0);
    for number in 0..crate::limits::ROLES_MAX + 10 {
        world.send(tag, &format!(r#"{{"type":"set_model","role":"r{number}","model":"echo/x"}}"#));
    }
    assert_eq!(world.hub.roles.len(), crate::limits::ROLES_MAX);
    assert_eq!(world.peer(tag).frames.len(), 11, "one role was there already");
    world.send(tag, r#"{"type":"set_model","role":"r0","model":"echo/y"}"#);
    assert_eq!(world.peer(tag).frames.len(), 11, "a role that is there may be repointed");
}
