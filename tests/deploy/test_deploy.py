#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is in deploy/ against those who will read it: Kubernetes' schemas, the broker's own check of
settings, Prometheus' tools, systemd, Debian's packages. What only an API server or a running systemd
could show is not tested here (deploy/README.md says so); the image is built by image.py.

  test_deploy.py [PART OF A CASE'S NAME …]

Ends with "N passed, N failed".
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request

import devmode
import pods

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ["FOLIOT_BUILD_DIR"])
FOLIOTD = os.environ["FOLIOT_PROGRAM_FOLIOTD"]
FOLIOT = os.environ["FOLIOT_PROGRAM_FOLIOT"]
OVERLAYS = sorted(path.name for path in (ROOT / "deploy/k8s/overlays").iterdir())
OBSERVABILITY = ROOT / "deploy/observability"
LIMIT_S = 120
CLOSE_S = 10  # SERVER_CLOSE_MS: what a broker takes at most after drain.timeout.


def run(command, **how):
    how = {"capture_output": True, "text": True, "timeout": LIMIT_S, "check": False} | how
    return subprocess.run([str(word) for word in command], **how)


def must(command, **how):
    done = run(command, **how)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def rendered(overlay):
    return must(["kubectl", "kustomize", ROOT / "deploy/k8s/overlays" / overlay])


def validate(text):
    return run(["node", ROOT / "tests/deploy/validate.mjs"], input=text)


def objects(overlay):
    done = validate(rendered(overlay))
    assert done.returncode == 0, done.stderr
    return {(found["kind"], found["metadata"]["name"]): found
            for found in json.loads(done.stdout)}


def one(found, kind):
    return next(value for (name, _), value in found.items() if name == kind)


# ---- Kubernetes ----

def manifests_fit_the_schemas_of_kubernetes(folder):
    for overlay in OVERLAYS:
        found = objects(overlay)
        for kind in ("StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy", "ConfigMap",
                     "ServiceAccount"):
            assert any(name == kind for name, _ in found), (overlay, kind)


def manifests_with_errors_are_refused(folder):
    text = rendered("ha")
    for right, wrong, said in (("readinessProbe", "readynessProbe", "readynessProbe"),
                               ("maxUnavailable: 1", "maxUnavailable: [1]", "maxUnavailable"),
                               ("kind: NetworkPolicy", "kind: NetworkPolice", "NetworkPolice")):
        assert right in text, right
        done = validate(text.replace(right, wrong))
        assert done.returncode == 1 and said in done.stderr, (wrong, done)


def settings_in_the_manifests_are_good(folder):
    """The broker itself reads the ConfigMap with the environment that the pod would have."""
    for overlay in OVERLAYS:
        found = objects(overlay)
        brokers = pods.StatefulSet(one(found, "StatefulSet"))
        config = folder / f"{overlay}.yaml"
        config.write_text(one(found, "ConfigMap")["data"]["foliotd.yaml"])
        databases = folder / "databases"
        databases.write_text("db0=host=postgres dbname=foliot user=foliot password=secret\n")
        mounts, args = brokers.mounts().values(), brokers.container["args"]
        values = brokers.environment("foliot-0")
        assert str(pathlib.Path(values["FOLIOT_DATABASES_FILE"]).parent) in mounts, mounts
        assert str(pathlib.Path(args[1]).parent) in mounts, mounts
        values["FOLIOT_DATABASES_FILE"] = str(databases)
        must([FOLIOTD, args[0], config, "--check-config"], env=values)
        printed = must([FOLIOTD, args[0], config, "--print-config"], env=values)
        assert "foliot-0.foliot-brokers.default.svc:7400" in printed, printed
        assert "secret" not in printed, printed


def the_grace_period_is_longer_than_a_drain(folder):
    for overlay in OVERLAYS:
        found = objects(overlay)
        brokers = pods.StatefulSet(one(found, "StatefulSet"))
        pause_s = int(brokers.pre_stop[1])
        text = one(found, "ConfigMap")["data"]["foliotd.yaml"]
        drain_s = int(re.search(r"^drain:\n  timeout: (\d+)s", text, re.M)[1])
        assert brokers.grace_s >= pause_s + drain_s + CLOSE_S, overlay


def services_and_policies_choose_the_brokers(folder):
    for overlay in OVERLAYS:
        found = objects(overlay)
        brokers = pods.StatefulSet(one(found, "StatefulSet"))
        labels = brokers.template["metadata"]["labels"]
        ports = {port["name"] for port in brokers.container["ports"]}
        assert ("Service", brokers.spec["serviceName"]) in found
        for (kind, name), thing in found.items():
            chosen = {"Service": lambda: thing["spec"]["selector"],
                      "PodDisruptionBudget": lambda: thing["spec"]["selector"]["matchLabels"],
                      "NetworkPolicy": lambda: thing["spec"]["podSelector"]["matchLabels"]}.get(kind)
            if chosen:
                assert chosen().items() <= labels.items(), (kind, name)
            if kind == "Service":
                assert all(port["targetPort"] in ports for port in thing["spec"]["ports"]), name


# ---- Prometheus, Grafana ----

def alerts_fire_for_what_they_are_there_for(folder):
    must(["promtool", "check", "rules", OBSERVABILITY / "alerts.yaml"])
    must(["promtool", "test", "rules", OBSERVABILITY / "alerts_test.yaml"])
    text = (OBSERVABILITY / "alerts_test.yaml").read_text()
    alerts = re.findall(r"- alert: (\w+)", (OBSERVABILITY / "alerts.yaml").read_text())
    for alert in alerts:
        assert f"alertname: {alert}, exp_alerts: []" in text, f"{alert}: not shown to be quiet"
    assert f"value: {len(alerts)}}}" in text, "not all are shown to fire"


def panels():
    return [panel for panel in json.loads((OBSERVABILITY / "dashboard.json").read_text())["panels"]
            if panel["type"] != "row"]


def the_dashboard_asks_what_prometheus_understands(folder):
    rules = folder / "rules.yaml"
    expressions = [target["expr"] for panel in panels() for target in panel["targets"]]
    rules.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": [
        {"record": f"panel:{i}", "expr": expr} for i, expr in enumerate(expressions)]}]}))
    assert len(expressions) > 20
    must(["promtool", "check", "rules", rules])


def every_metric_that_is_asked_for_is_there(folder):
    """In the rules, on the dashboard and in the documents: on the page of a real broker."""
    with devmode.Dev() as dev:
        page = urllib.request.urlopen(
            f"http://{dev.place['adminAddress']}/metrics", timeout=5).read().decode()
        must(["promtool", "check", "metrics"], input=page)
    there = set(re.findall(r"^# TYPE (\w+)", page, re.M))
    for place in (OBSERVABILITY / "alerts.yaml", OBSERVABILITY / "dashboard.json",
                  ROOT / "docs/METRICS.md"):
        asked = set(re.findall(r"\b((?:foliot|process)_[a-z0-9_]+)(?![a-z0-9_]*\.)", place.read_text()))
        for name in asked:
            bare = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in there or bare in there, (place.name, name)


# ---- systemd ----

def the_unit_is_one_that_systemd_understands(folder):
    text = (ROOT / "deploy/systemd/foliotd.service").read_text()
    unit = folder / "foliotd.service"
    unit.write_text(text.replace("/usr/sbin/foliotd", FOLIOTD).replace("man:", "file:/"))
    done = run(["systemd-analyze", "verify", "--man=no", unit])
    assert done.returncode == 0 and not done.stderr, done
    unit.write_text(unit.read_text().replace("NoNewPrivileges", "NoNewPrivilege"))
    assert "NoNewPrivilege" in run(["systemd-analyze", "verify", "--man=no", unit]).stderr
    tunables = re.search(r"^Environment=(GLIBC_TUNABLES=.*)$", text, re.M)[1]
    assert f"\nENV {tunables}\n" in (ROOT / "deploy/Dockerfile").read_text(), tunables
    stop_s = int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.M)[1])
    sample = (ROOT / "deploy/foliotd.yaml").read_text()
    drain_s = int(re.search(r"^drain:\n  timeout: (\d+)s", sample, re.M)[1])
    assert stop_s > drain_s + CLOSE_S


def a_service_manager_hears_when_it_is_ready_and_when_it_leaves(folder):
    for name in (str(folder / "notify"), "\0foliot-notify-%d" % os.getpid()):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.settimeout(devmode.LIMIT_S)
            manager.bind(name)
            os.environ["NOTIFY_SOCKET"] = name.replace("\0", "@")
            try:
                with devmode.Dev() as dev:
                    assert manager.recv(64) == b"READY=1"
                    dev.popen.send_signal(signal.SIGTERM)
                    assert manager.recv(64) == b"STOPPING=1"
                    assert dev.popen.wait(devmode.LIMIT_S) == 0
            finally:
                del os.environ["NOTIFY_SOCKET"]


# ---- packages ----

def libraries(program):
    """Debian's packages of the libraries that a program names itself."""
    needed = re.findall(r"NEEDED\s+(\S+)", must(["objdump", "-p", program]))
    found = dict(re.findall(r"(\S+) => (\S+)", must(["ldd", program])))
    packages = set()
    for name in needed:
        path = found[name]
        owner = run(["dpkg", "-S", path])
        if owner.returncode != 0:  # A merged /usr: dpkg knows it by its other name.
            owner = run(["dpkg", "-S", str(pathlib.Path(path).resolve())])
        assert owner.returncode == 0, (name, path, owner.stderr)
        packages.add(owner.stdout.split(":")[0])
    return packages - {"libc6", "libgcc-s1", "libasan8", "libubsan1"}


def stage(text, number):
    return set(re.search(r"no-install-recommends \\\n(.*?)&& rm", text.split("\nFROM ")[number],
                         re.S)[1].replace("\\", "").split())


def the_image_has_what_the_programs_need(folder):
    text = (ROOT / "deploy/Dockerfile").read_text()
    runtime = stage(text, 2)
    for program in (FOLIOT, FOLIOTD):
        missing = libraries(program) - runtime
        assert not missing, (program, missing)
    setup = (ROOT / "tools/setup").read_text()
    lists = set(re.search(r"^build=\((.*?)^servers=", setup, re.M | re.S)[1]
                .replace("libraries=(", "").replace(")", "").split())
    assert lists - {"git", "make", "binutils", "libcriterion-dev"} == stage(text, 1), (
        lists ^ stage(text, 1))


def packages_of_debian_hold_programs_that_run(folder):
    must(["cpack", "-G", "DEB", "-B", folder], cwd=BUILD)
    found = {path.name.split("_")[0]: path for path in folder.glob("*.deb")}
    assert set(found) == {"foliotd", "foliot", "libfoliot0", "libfoliot-dev"}, found
    tree = folder / "tree"
    for path in found.values():
        must(["dpkg-deb", "-x", path, tree])
    for program, name in (("usr/sbin/foliotd", "foliotd"), ("usr/bin/foliot", "foliot")):
        said = must([tree / program, "--version"])
        assert said.startswith(name), said
        depends = set(re.findall(r"([a-z0-9.+-]+)(?: \([^)]*\))?(?:, |$)",
                                 must(["dpkg-deb", "-f", found[name], "Depends"]).strip()))
        assert libraries(tree / program) <= depends, depends
    control = folder / "control"
    must(["dpkg-deb", "-e", found["foliotd"], control])
    assert (control / "conffiles").read_text() == "/etc/foliot/foliotd.yaml\n"
    for script in ("postinst", "prerm", "postrm"):
        must(["sh", "-n", control / script])
        assert os.access(control / script, os.X_OK), script
    for path in ("usr/lib/systemd/system/foliotd.service", "usr/lib/sysusers.d/foliot.conf",
                 "usr/include/foliot.h", "usr/share/man/man8/foliotd.8"):
        assert (tree / path).is_file(), path


CASES = [manifests_fit_the_schemas_of_kubernetes, manifests_with_errors_are_refused,
         settings_in_the_manifests_are_good, the_grace_period_is_longer_than_a_drain,
         services_and_policies_choose_the_brokers, alerts_fire_for_what_they_are_there_for,
         the_dashboard_asks_what_prometheus_understands, every_metric_that_is_asked_for_is_there,
         the_unit_is_one_that_systemd_understands,
         a_service_manager_hears_when_it_is_ready_and_when_it_leaves,
         the_image_has_what_the_programs_need, packages_of_debian_hold_programs_that_run]


def main():
    passed = failed = 0
    for program in (["tools/npm", "tests/deploy"],):
        must([ROOT / program[0], program[1]], timeout=240)
    for case in CASES:
        if len(sys.argv) > 1 and not any(word in case.__name__ for word in sys.argv[1:]):
            continue
        folder = pathlib.Path(tempfile.mkdtemp(prefix="foliot-deploy-"))
        try:
            case(folder)
            passed += 1
        except (AssertionError, RuntimeError, OSError, KeyError, StopIteration, TypeError,
                subprocess.SubprocessError) as error:
            failed += 1
            print(f"FAILED {case.__name__}: {type(error).__name__}: {error}", flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
