//! Users, groups and grants.

use std::collections::BTreeSet;

use nyala_model::access::{Grant, PasswordEntry, Privilege, RoleEntry, Securable};

use super::fixtures::*;
use crate::change::{Granted, RoleChange};
use crate::{CatalogError, Change};

pub async fn roles_come_and_go(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_role("ann")).await;
    subject.make(create_role("odd \"name\" 🦌")).await;
    subject.forgive(Change::CreateRole { role: role("ann"), if_not_exists: true }).await;
    subject
        .refuse(create_role("ann"), "role `ann` already exists; choose another name or drop it first")
        .await;
    let password = PasswordEntry { scram: "SCRAM-SHA-256$1:a$b:c".to_owned(), argon2: None };
    let change =
        RoleChange { superuser: Some(true), password: Some(Some(password.clone())), ..RoleChange::default() };
    subject.make(Change::AlterRole { name: "ann".to_owned(), change: change.clone() }).await;
    subject.forgive(Change::AlterRole { name: "ann".to_owned(), change }).await;
    let reopened = Subject::open(backend).await.catalog.snapshot();
    assert!(reopened.roles["ann"].superuser && reopened.roles["ann"].login);
    assert_eq!(reopened.roles["ann"].password, Some(password));
    subject.make(Change::DropRole { name: "ann".to_owned(), if_exists: false }).await;
    subject.forgive(Change::DropRole { name: "ann".to_owned(), if_exists: true }).await;
    let error =
        subject.commit(Change::DropRole { name: "ann".to_owned(), if_exists: false }).await.unwrap_err();
    assert!(matches!(error, CatalogError::NotFound { what: "role", .. }), "{error}");
}

pub async fn grants_are_given_and_taken(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_table("sales")).await;
    for name in ["ann", "bob", "readers"] {
        subject.make(create_role(name)).await;
    }
    let select = || privileges(&[(Privilege::Select, "sales")]);
    subject.make(Change::Grant { what: select(), to: names(&["ann", "readers"]) }).await;
    subject.forgive(Change::Grant { what: select(), to: names(&["ann"]) }).await;
    subject.make(Change::Grant { what: membership("readers"), to: names(&["bob"]) }).await;
    let snapshot = Subject::open(backend).await.catalog.snapshot();
    assert_eq!(snapshot.roles["ann"].grants.len(), 1);
    assert_eq!(snapshot.roles["bob"].member_of, names(&["readers"]));
    subject.make(Change::Revoke { what: select(), from: names(&["ann"]) }).await;
    subject.forgive(Change::Revoke { what: select(), from: names(&["ann"]) }).await;
    subject.make(Change::DropRole { name: "readers".to_owned(), if_exists: false }).await;
    let snapshot = Subject::open(backend).await.catalog.snapshot();
    assert!(snapshot.roles["ann"].grants.is_empty() && snapshot.roles["bob"].member_of.is_empty());
}

pub async fn senseless_grants_are_refused(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_role("a")).await;
    subject.make(create_role("b")).await;
    subject.make(Change::Grant { what: membership("a"), to: names(&["b"]) }).await;
    let circle = Change::Grant { what: membership("b"), to: names(&["a"]) };
    subject.refuse(circle, "role `a` cannot be a member of `b`, which is a member of it").await;
    for change in [
        Change::Grant { what: privileges(&[(Privilege::Select, "nope")]), to: names(&["a"]) },
        Change::Grant { what: membership("nope"), to: names(&["a"]) },
        Change::Grant { what: membership("a"), to: names(&["nope"]) },
    ] {
        let error = subject.commit(change).await.unwrap_err();
        assert!(matches!(error, CatalogError::NotFound { .. }), "{error}");
    }
}

/// A table that is created anew under an old name is another table.
pub async fn grants_end_with_what_they_are_about(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_schema("shop")).await;
    subject.make(create_table("shop.sales")).await;
    subject.make(create_cube("shop.revenue", &["shop.sales"])).await;
    subject.make(create_role("ann")).await;
    let mut grants = privileges(&[(Privilege::Select, "shop.sales"), (Privilege::Build, "shop.revenue")]);
    if let Granted::Privileges(grants) = &mut grants {
        grants.insert(Grant { privilege: Privilege::Create, on: Securable::Schema("shop".to_owned()) });
    }
    subject.make(Change::Grant { what: grants, to: names(&["ann"]) }).await;
    let left = |subject: &Subject| subject.catalog.snapshot().roles["ann"].grants.len();
    subject.make(drop_cube("shop.revenue")).await;
    assert_eq!(left(&subject), 2);
    subject.make(drop_schema("shop", true)).await;
    assert_eq!(left(&subject), 0);
}

fn role(name: &str) -> RoleEntry {
    RoleEntry {
        name: name.to_owned(),
        login: true,
        superuser: false,
        password: None,
        member_of: BTreeSet::new(),
        grants: BTreeSet::new(),
    }
}

pub fn create_role(name: &str) -> Change {
    Change::CreateRole { role: role(name), if_not_exists: false }
}

pub fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

fn membership(group: &str) -> Granted {
    Granted::Membership(names(&[group]))
}

pub fn privileges(on: &[(Privilege, &str)]) -> Granted {
    let grant = |(privilege, object): &(Privilege, &str)| Grant {
        privilege: *privilege,
        on: Securable::Object(name(object)),
    };
    Granted::Privileges(on.iter().map(grant).collect())
}
