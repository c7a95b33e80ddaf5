//! `nyala serve`.

use std::io::{Write, stderr, stdout};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nyala_model::config::{Authentication, Config};
use nyala_server::serve::{Running, serve};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::args::ServeArgs;
use crate::greeting::Ways;
use crate::node_port::NodePort;
use crate::open::{Opened, open_node};
use crate::service_manager::ServiceManager;
use crate::stop::Requests;
use crate::{config, first_user, greeting};

/// Opens the data folder and serves it until asked to stop.
pub async fn command(args: ServeArgs) -> anyhow::Result<()> {
    let mut requests = Requests::listen()?;
    let config = Arc::new(config::load(&args.config, &args.flags())?.into_config());
    let stop = CancellationToken::new();
    // Opens on a thread of its own: thousands of cubes take seconds to compile, and disks may not answer. A request to stop must be noticed
    // meanwhile.
    let mut opening = spawn_blocking({
        let (config, stop) = (Arc::clone(&config), stop.clone());
        move || Handle::current().block_on(stop.run_until_cancelled(open(&config)))
    });
    let opened = tokio::select! {
        opened = &mut opening => opened?,
        () = requests.next() => None,
    };
    let Some(opened) = opened else {
        // The data folder is left as a crash would leave it, and the next start recovers from that.
        stop.cancel();
        let _ = writeln!(stderr(), "stopped before the server was ready");
        return Ok(());
    };
    let opened = opened?;
    run(&config, &opened, "SELECT 1", requests).await
}

async fn open(config: &Config) -> anyhow::Result<Opened> {
    let opened = open_node(config, "nyala serve").await?;
    first_user::make(&opened.engine, &config.server).await?;
    Ok(opened)
}

/// Serves an open data folder until asked to stop. `example` is the statement that the greeting shows.
pub async fn run(
    config: &Config,
    opened: &Opened,
    example: &str,
    mut requests: Requests,
) -> anyhow::Result<()> {
    let shutdown = CancellationToken::new();
    let running = serve(config, Arc::clone(&opened.engine), shutdown.clone()).await?;
    let node_port = NodePort::open(opened, &shutdown);
    opened.tell_address(&format!("postgres://{}/nyala", greeting::reachable(running.postgres_address)));
    let encrypted = !config.server.tls.certificate.as_os_str().is_empty();
    warn_if_unprotected(config.server.authentication, encrypted, &running);
    // The server also serves if its greeting cannot be written.
    let _ = greet(&running, opened, encrypted, example);
    let manager = tell_manager(&running, opened, &shutdown);
    let stopped = running.stopped();
    tokio::pin!(stopped);
    tokio::select! {
        // A door that closes by itself stops the server.
        () = &mut stopped => anyhow::bail!("the server stopped by itself; its log says why"),
        () = requests.next() => {}
    }
    // A failed write does not matter: stderr may have no reader any more.
    let _ = writeln!(stderr(), "stopping: running queries may end; Ctrl-C again cancels them");
    manager.stopping(Duration::from_millis(config.server.shutdown_grace_ms));
    shutdown.cancel();
    tokio::select! {
        () = &mut stopped => {}
        () = requests.next() => {
            opened.engine.shutdown(Duration::ZERO).await;
            stopped.await;
        }
    }
    node_port.close().await;
    Ok(())
}

/// Tells the service manager that the server is ready, and from now on that it is alive.
fn tell_manager(running: &Running, opened: &Opened, shutdown: &CancellationToken) -> Arc<ServiceManager> {
    let manager = Arc::new(ServiceManager::of_environment());
    let (postgres, http) = (running.postgres_address, running.http_address);
    manager.ready(&format!("PostgreSQL's protocol on {postgres}, HTTP on {http}"));
    tokio::spawn(Arc::clone(&manager).keep_alive(Arc::clone(&opened.engine), shutdown.clone()));
    manager
}

/// Warns of addresses on which others could read or do too much.
fn warn_if_unprotected(authentication: Authentication, encrypted: bool, running: &Running) {
    match authentication {
        Authentication::None => {
            let addresses = [running.postgres_address, running.http_address];
            for address in addresses.into_iter().chain(running.flight_address).chain(running.kylin_address) {
                warn_if_open(address);
            }
        }
        Authentication::Password if !encrypted => {
            warn_if_readable(running.http_address, "HTTP");
            if let Some(address) = running.flight_address {
                warn_if_readable(address, "Flight SQL");
            }
            if let Some(address) = running.kylin_address {
                warn_if_readable(address, "Kylin's API");
            }
        }
        Authentication::Password => {}
    }
}

fn greet(running: &Running, opened: &Opened, encrypted: bool, example: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "nyala {} serves `{}`", env!("CARGO_PKG_VERSION"), opened.path().display())?;
    let ways = Ways {
        postgres: running.postgres_address,
        http: running.http_address,
        flight: running.flight_address,
        kylin: running.kylin_address,
        socket: running.postgres_socket.as_deref(),
        encrypted,
    };
    greeting::write(&mut out, ways, example)?;
    Ok(())
}

fn warn_if_readable(address: SocketAddr, protocol: &str) {
    if !address.ip().is_loopback() {
        tracing::warn!(%address, protocol, "there is no encryption: whoever is on the way reads the passwords that clients send");
    }
}

fn warn_if_open(address: SocketAddr) {
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "there is no authentication: whoever reaches this address can read and change everything");
    }
}
