"""Measure `spml serve` against a bare FastAPI application and LitServe, and its memory over many requests.

    python benchmarks/serving.py VOC2012_ANIMALS WEIGHTS [--litserve PYTHON] [--quick]

VOC2012_ANIMALS is a folder with `labels.csv`, WEIGHTS the .safetensors file of a MobileNetV2 (timm's
`mobilenetv2_100`): a head is trained on the frozen backbone at 128 x 128 pixels with the first 200 training
and 50 validation photographs, and requests hold one of the first 50 test photographs. PYTHON is an
interpreter that has LitServe next to spml; without it LitServe is left out. `--quick` takes a minute.

Load: all servers run at once, and each in turn is asked by 1, 16 and 64 clients that keep their connections,
in three rounds. Clients run in one process on the same cores as the server, so all rates hold for both
together. Memory: one server answers 20,000 requests of 16 clients while hostile clients send truncated,
malformed, oversized and slow requests; each answer is compared with `Run.predict`.

Writes benchmarks/results/serving.json and serving.md.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared import markdown, read_rows, save_results, table, today, write_rows
from tests.helpers.serving import bomb
from tests.serve.process import PART, head

import spml

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = (1, 16, 64)
SIZE = 128


def train(data, weights, work):
    """Train the run to serve; gives it and the files that are sent."""
    train_, val, test = (read_rows(data / "labels.csv", split) for split in ("train", "val", "test"))
    write_rows(work / "few.csv", train_[:200] + val[:50])
    run = spml.train(
        work / "few.csv", head="ridge", threads=1, quiet=True, mean_labels=1.5, output=str(work / "run"),
        model={"backbone": "mobilenetv2_100", "weights": str(weights)},
        data={"images": str(data), "separator": " ", "unlisted": "negative", "observe": "single",
              "size": SIZE, "workers": 0},
    )  # fmt: skip
    return run, [data / row["file"] for row in test[:50]]


def free_port():
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(kind, run, python):
    """Start a server; gives its process and port."""
    port = free_port()
    if kind.startswith("spml serve"):
        command = ["-m", "spml", "serve", str(run), "--port", str(port), "--device", "cpu"]
        command += ["--workers", "2"] if kind.endswith("2 workers") else []
    else:
        command = [str(ROOT / "benchmarks" / f"serving_{kind.split()[0].lower()}.py"), str(run), str(port)]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [python, *command], stdout=subprocess.DEVNULL, env=environment, start_new_session=True
    )
    return process, port


def request_of(path):
    """A request to /predict with one image."""
    body = PART + path.read_bytes() + b"\r\n--b--\r\n"
    return head(len(body)) + body


async def exchange(reader, writer, request):
    """Send a request and read the answer: (status, body)."""
    writer.write(request)
    top = await reader.readuntil(b"\r\n\r\n")
    lines = top.lower().split(b"\r\n")
    length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
    return int(top[9:12]), await reader.readexactly(length)


async def wait_until_ready(port, request, seconds=180):
    """Wait until a server answers a request well."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            status, _ = await exchange(reader, writer, request)
            writer.close()
            if status == 200:
                return
        except (OSError, EOFError):
            pass
        await asyncio.sleep(0.5)
    raise TimeoutError(f"nothing answers at port {port}")


async def load(port, requests, clients, seconds):
    """Ask for some seconds; gives latencies in seconds, and the number of answers that were refusals."""
    latencies, refused = [], 0
    end = time.perf_counter() + seconds

    async def client(number):
        nonlocal refused
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in itertools.islice(itertools.cycle(requests), number, None):
            started = time.perf_counter()
            if started > end:
                break
            status, _ = await exchange(reader, writer, request)
            latencies.append(time.perf_counter() - started)
            refused += status != 200
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*map(client, range(clients)))
    return latencies, refused, time.perf_counter() - started


async def compare(ports, requests, rounds, seconds):
    """Rate and latencies of each server by number of clients: medians over rounds, of all latencies."""
    found = {}
    for number, clients in itertools.product(range(rounds), CLIENTS):
        for kind, port in ports.items():
            await load(port, requests, clients, 0.5)
            latencies, refused, took = await load(port, requests, clients, seconds)
            entry = found.setdefault((kind, clients), {"rates": [], "latencies": [], "refused": 0})
            entry["rates"].append(len(latencies) / took)
            entry["latencies"] += latencies
            entry["refused"] += refused
            print(
                f"round {number + 1}: {kind}, {clients} clients: {entry['rates'][-1]:.1f} requests/s",
                flush=True,
            )
    return [
        {
            "server": kind,
            "clients": clients,
            "requests per second": round(statistics.median(entry["rates"]), 1),
            "of each round": [round(rate, 1) for rate in entry["rates"]],
            "p50, ms": round(1000 * float(np.percentile(entry["latencies"], 50)), 1),
            "p99, ms": round(1000 * float(np.percentile(entry["latencies"], 99)), 1),
            "refused": entry["refused"],
        }
        for (kind, clients), entry in found.items()
    ]


async def hostile(port, good, sent):
    """Send one bad request after the other, a few per second, until cancelled; counts the answers."""
    pieces = {
        "truncated body": [good[: len(good) // 2]],
        "malformed multipart": [head(9) + b"nonsense!"],
        "stated as huge": [head(10**11) + PART],
        "thousands of parts": [head(250_000) + b"--b\r\n\r\n\r\n" * 25_000],
        "wrong type": [head(2, kind="text/html") + b"ab"],
        "no image": [head(len(PART) + 12) + PART + b"abc\r\n--b--\r\n"],
        "bomb": [head(len(PART) + len(bomb()) + 9) + PART + bomb() + b"\r\n--b--\r\n"],
        "no HTTP": [b"\x16\x03\x01\r\n\r\n"],
        "byte by byte": [bytes([byte]) for byte in head(500)[:40]],
    }
    for name in itertools.cycle(pieces):
        writer = None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for piece in pieces[name]:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.01 if len(pieces[name]) > 1 else 0)
            answer = b""
            if name not in ("truncated body", "byte by byte"):
                answer = await asyncio.wait_for(reader.read(12), 5)
            sent[name, answer[9:12].decode() or "left"] += 1
        except (OSError, asyncio.TimeoutError):
            sent[name, "closed"] += 1
        finally:
            if writer:
                writer.close()
        await asyncio.sleep(0.1)


async def memory(port, requests, expected, total):
    """Answer `total` requests next to hostile ones; memory at 40 times, and what was wrong."""
    held, wrong, refused, done, sent = [], 0, 0, 0, Counter()

    async def client(number):
        nonlocal wrong, refused, done
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        position = number
        while done < total:
            done += 1
            position = (position + 1) % len(requests)
            status, body = await exchange(reader, writer, requests[position])
            if status != 200:
                refused += 1
                continue
            scores = list(json.loads(body)["predictions"][0]["scores"].values())
            wrong += bool(np.abs(np.array(scores) - expected[position]).max() > 1e-5)
        writer.close()

    async def watch():
        step = max(1, total // 40)
        while True:
            while done < step * (len(held) + 1):
                await asyncio.sleep(0.02)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
            _, text = await exchange(reader, writer, request)
            writer.close()
            line = next(line for line in text.decode().splitlines() if line.startswith("spml_memory_bytes"))
            held.append((done, float(line.split()[-1])))
            print(f"{done} requests: {held[-1][1] / 1e6:.1f} MB", flush=True)

    others = [
        asyncio.create_task(watch()),
        *(asyncio.create_task(hostile(port, requests[0], sent)) for _ in range(4)),
    ]
    started = time.perf_counter()
    await asyncio.gather(*map(client, range(16)))
    took = time.perf_counter() - started
    for task in others:
        task.cancel()
    half = held[len(held) // 2 :]
    slope = (
        np.polyfit([count for count, _ in half], [size for _, size in half], 1)[0] if len(half) > 1 else 0.0
    )
    return {
        "requests": done,
        "seconds": round(took, 1),
        "wrong answers": wrong,
        "refused": refused,
        "MB": [[count, round(size / 1e6, 1)] for count, size in held],
        "slope of the second half, KB per 1,000 requests": round(float(slope), 1),
        "hostile requests": {f"{name}: {answer}": count for (name, answer), count in sorted(sent.items())},
    }


def version_in(python, package):
    """Version of a package that an interpreter finds."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def page(results):
    """The results as Markdown."""
    bare = {
        row["clients"]: row["of each round"] for row in results["servers"] if row["server"].startswith("bare")
    }
    rows = []
    for row in sorted(results["servers"], key=lambda row: (row["clients"], row["server"])):
        pairs = zip(row["of each round"], bare[row["clients"]], strict=True)
        ratio = statistics.median(rate / other for rate, other in pairs)
        cells = (row[key] for key in ("p50, ms", "p99, ms", "refused"))
        rows.append((row["server"], row["clients"], row["requests per second"], f"{ratio:.2f}", *cells))
    held = results["memory"]
    sizes, bad = [size for _, size in held["MB"]], held["hostile requests"]
    return markdown(
        "# Serving",
        f"`python benchmarks/serving.py`, {results['date']}, {results['machine']}, {results['cores']} "
        f"cores, which the clients share; {results['versions']['machine']}; "
        + ", ".join(f"{name} {number}" for name, number in results["packages"].items())
        + f". Load average of the machine at the start: {results['load']}.",
        f"Model: {results['model']}. A request holds one image. All servers compute with one thread of "
        f"torch. Rates are medians of {results['rounds']} rounds, in which the servers took "
        "turns; the ratio to plain FastAPI is the median of those of the rounds. LitServe brings uvloop and "
        "httptools, which the others ran without.",
        table(
            "server | clients | requests/s | of bare FastAPI | p50, ms | p99, ms | refused", rows, right=True
        ),
        "## Memory",
        f"{held['requests']:,} requests of 16 clients in {held['seconds']} s, next to "
        f"{sum(bad.values()):,} hostile ones: {held['wrong answers']} answers differed from `Run.predict` by "
        f"more than 1e-5, {held['refused']} were refused. The server held {sizes[0]} MB after the first "
        f"{held['MB'][0][0]:,} requests and {sizes[-1]} MB at the end, at most {max(sizes)} MB; over the "
        "second half it changed by "
        f"{held['slope of the second half, KB per 1,000 requests']} KB per 1,000 requests.",
        table(
            "hostile request: answer | number",
            [(name, f"{count:,}") for name, count in bad.items()],
            right=True,
        ),
    )


def stop(process):
    """End a server and its children."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(40)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main():
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--litserve", default="")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    rounds, seconds, total = (1, 1.5, 600) if options.quick else (3, 4.0, 20_000)
    load_before = " ".join(f"{value:.1f}" for value in os.getloadavg())
    with tempfile.TemporaryDirectory() as folder:
        run, files = train(options.data, options.weights, Path(folder))
        requests = [request_of(path) for path in files]
        expected = run.predict(files, cache="none", device="cpu").scores
        kinds = dict.fromkeys(("spml serve", "spml serve, 2 workers", "bare FastAPI"), sys.executable)
        if options.litserve:
            kinds["LitServe"] = options.litserve
        started = {}
        try:
            for kind, python in kinds.items():
                started[kind] = start(kind, run.folder, python)
                asyncio.run(wait_until_ready(started[kind][1], requests[0]))
            ports = {kind: port for kind, (_, port) in started.items()}
            servers = asyncio.run(compare(ports, requests, rounds, seconds))
        finally:
            for process, _ in started.values():
                stop(process)
        process, port = start("spml serve", run.folder, sys.executable)
        try:
            asyncio.run(wait_until_ready(port, requests[0]))
            held = asyncio.run(memory(port, requests, expected, total))
        finally:
            stop(process)
    packages = {name: version(name) for name in ("fastapi", "uvicorn", "torch", "pillow")}
    if options.litserve:
        packages["litserve"] = version_in(options.litserve, "litserve")
    results = {
        **today(),
        "cores": os.cpu_count(),
        "load": load_before,
        "packages": packages,
        "model": f"mobilenetv2_100 at {SIZE} x {SIZE} pixels with a ridge head, VOC 2012 animals",
        "rounds": rounds,
        "servers": servers,
        "memory": held,
    }
    save_results("serving", results, page(results))


if __name__ == "__main__":
    main()
