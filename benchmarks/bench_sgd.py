"""Accuracy and speed of DPSGDClassifier against AMPClassifier, MLPClassifier and Opacus.

    python benchmarks/bench_sgd.py --data DIR

prints Markdown tables. First the linear model with default parameters on a9a and MNIST, rows of unit norm: accuracy on
held-out rows, mean over fresh noise, beside AMPClassifier for the same neighbours, a row replaced and a row blank or
not. Then a network with one hidden layer of 128 on MNIST (8000 rows to learn from, 2000 to test, pixels in [0, 1])
beside the linear model, the non-private MLPClassifier, and Opacus (where it is installed, with PyTorch) with the same
noise, sampling, clipping, steps and step length, all for a row blank or not, as Opacus accounts. ``--only log-loss``
has the log loss of probabilities, also where rows say little. Last, the time of one
pass over the rows as a ratio to MLPClassifier's for the same batches, timed in turn in one process. ``--only batches``
compares numbers of rows of a batch, for a network of 32 and for the linear model. DIR holds a9a and a9a.t in svmlight
format, and the ten thousand MNIST test images and labels as gzipped idx files; without --data, sets bundled with
scikit-learn stand in.
"""

import argparse
import time
import warnings

import measure  # pins the threads, so before numpy
import numpy as np
import problems
from problems import mean_score
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

from skdprp import AMPClassifier, DPSGDClassifier
from skdprp.neural_network._plan import sampling_rate

GOALS = {0.03: 0.805, 0.1: 0.830, 1.0: 0.840}  # of a9a, for a row blank or not
HIDDEN = 128


def table_of_linear_models(split, epsilons, draws, adjacency, goals):
    """Noisy descent beside objective perturbation."""
    X, X_test, y, y_test = split
    print(f"\nLinear model, {X.shape[0]} rows, {X.shape[1]} features, {adjacency}, delta = 1 / n^2\n")
    row = measure.table("epsilon", "DPSGDClassifier", "AMPClassifier", "not private", "goal")
    ceiling = LogisticRegression(C=10.0, max_iter=10_000).fit(X, y).score(X_test, y_test)
    for epsilon in epsilons:
        ours, error = mean_score(DPSGDClassifier(epsilon=epsilon, adjacency=adjacency), split, draws)
        other, other_error = mean_score(AMPClassifier(epsilon=epsilon, adjacency=adjacency), split, draws)
        goal = goals.get(epsilon)
        verdict = "" if goal is None else f"{goal:.3f} {'reached' if ours >= goal else 'NOT REACHED'}"
        row(f"{epsilon:g}", f"{ours:.4f} ± {error:.4f}", f"{other:.4f} ± {other_error:.4f}", f"{ceiling:.4f}", verdict)


def table_of_log_losses(named_splits, epsilons, draws):
    """Log loss on held-out rows over that of the shares of the classes."""
    print("\nLog loss of DPSGDClassifier over that of the shares of the classes, delta = 1 / n^2\n")
    row = measure.table("data", "neighbours", *(f"epsilon {epsilon:g}" for epsilon in epsilons))
    for name, (X, X_test, y, y_test) in named_splits.items():
        classes, counts = np.unique(y, return_counts=True)
        shares = np.tile(counts / len(y), (len(y_test), 1))
        for adjacency in ("add_remove", "replace_one"):
            ratios = []
            for epsilon in epsilons:
                model = DPSGDClassifier(epsilon=epsilon, adjacency=adjacency, classes=classes)
                fitted = (model.fit(X, y).predict_proba(X_test) for _ in range(draws))
                ratios.append(np.mean([log_loss(y_test, p) for p in fitted]) / log_loss(y_test, shares))
            row(name, adjacency, *(f"{ratio:.3f}" for ratio in ratios))


def table_of_networks(split, epsilons, draws):
    """One hidden layer: ours, and the peers that are there."""
    X, X_test, y, y_test = split
    print(f"\nOne hidden layer of {HIDDEN}, {X.shape[0]} rows, {X.shape[1]} features, delta = 1 / n^2\n")
    row = measure.table(
        "epsilon", "network", "linear", "product noise, linear", "MLPClassifier", "Opacus", "epsilon of Opacus"
    )
    ceiling = MLPClassifier((HIDDEN,), max_iter=60, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ceiling = ceiling.fit(X, y).score(X_test, y_test)
    for epsilon in epsilons:
        model = DPSGDClassifier(epsilon=epsilon, adjacency="add_remove")
        linear, error = mean_score(model, split, draws)
        product, product_error = mean_score(clone(model).set_params(noise="product", n_epochs=10), split, draws)
        # An eighth of the rows is a sampling rate that a loader of batches can have as well.
        network = clone(model).set_params(hidden_layer_sizes=(HIDDEN,), batch_size=X.shape[0] // 8, n_epochs=30)
        ours, our_error = mean_score(network, split, draws)
        peer, peer_epsilon = opacus_score(network.fit(X, y), split)
        row(
            f"{epsilon:g}",
            f"{ours:.4f} ± {our_error:.4f}",
            f"{linear:.4f} ± {error:.4f}",
            f"{product:.4f} ± {product_error:.4f}",
            f"{ceiling:.4f}",
            peer,
            peer_epsilon,
        )


def opacus_score(fitted, split):
    """Accuracy of the peer with the noise, sampling, clipping, steps and step length of a fitted network, as text."""
    try:
        import torch
        from opacus import PrivacyEngine
    except ImportError:
        return "not installed", ""
    X, X_test, y, y_test = (torch.tensor(part) for part in split)
    X, X_test, y = X.float(), X_test.float(), y.long()
    model = torch.nn.Sequential(torch.nn.Linear(X.shape[1], HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 10))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=len(X) // 8)
    engine = PrivacyEngine(accountant="prv")
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=fitted.learning_rate_),
        data_loader=loader,
        noise_multiplier=fitted.noise_multiplier_,
        max_grad_norm=fitted.max_grad_norm,
        poisson_sampling=True,
    )
    loss = torch.nn.CrossEntropyLoss()
    for _ in range(fitted.n_iter_ // 8):
        for rows, labels in loader:
            optimizer.zero_grad()
            loss(model(rows), labels).backward()
            optimizer.step()
    score = (model(X_test).argmax(dim=1) == y_test).float().mean().item()
    return f"{score:.4f}", f"{engine.get_epsilon(fitted.delta_):.4f}"


def table_of_times(split, repeats):
    """One pass over the rows, ours and MLPClassifier's in turn."""
    X, _, y, _ = split
    print(f"\nOne pass over {X.shape[0]} rows, one hidden layer of {HIDDEN}, median of {repeats}\n")
    row = measure.table("rows of a batch", "dtype", "DPSGDClassifier, s", "MLPClassifier, s", "ratio")
    for batch_size in (200, 1000):
        for dtype in (np.float64, np.float32):
            own, other, ratio = times_of_a_pass(X.astype(dtype), y, batch_size, repeats)
            row(f"{batch_size}", np.dtype(dtype).name, f"{own:.3f}", f"{other:.3f}", f"{ratio:.2f}")


def table_of_batches(split, hidden, epsilons, draws):
    """Accuracy, noise and time by the number of rows of a batch, around the automatic one of networks."""
    X, X_test, y, y_test = split
    print(f"\nHidden layers {hidden}, {X.shape[0]} rows, {X.shape[1]} features, delta = 1 / n^2\n")
    auto = 1 if hidden else None
    row = measure.table("epsilon", "rows of a batch", "noise beside all rows", "accuracy", "seconds of a fit")
    for epsilon in epsilons:
        every = DPSGDClassifier(epsilon=epsilon, hidden_layer_sizes=hidden, batch_size=None).fit(X, y)
        mu = every.n_iter_**0.5 / every.noise_multiplier_
        rate = sampling_rate(mu, len(y), adjacency=every.adjacency, n_steps=every.n_iter_, n_epochs="auto")
        for factor in (0.25, 0.5, 1, 2, None):
            batch_size = None if factor is None else max(1, round(factor * rate * len(y)))
            model = clone(every).set_params(batch_size=batch_size).fit(X, y)  # calibrates, before the clock starts
            start = time.thread_time()
            scores = [model.fit(X, y).score(X_test, y_test) for _ in range(draws)]
            seconds = (time.thread_time() - start) / draws
            noise = model.noise_multiplier_ * mu / (model.sampling_rate_ * model.n_iter_**0.5)
            mean, error = np.mean(scores), np.std(scores) / max(draws - 1, 1) ** 0.5
            name = ("all" if batch_size is None else str(batch_size)) + (", auto" if factor == auto else "")
            row(f"{epsilon:g}", name, f"{noise:.3f}", f"{mean:.4f} ± {error:.4f}", f"{seconds:.2f}")


def times_of_a_pass(X, y, batch_size, repeats):
    """Seconds of ours and of the peer's, and their ratio; what calibrates once for all fits is not counted."""
    ours = DPSGDClassifier(hidden_layer_sizes=(HIDDEN,), batch_size=batch_size, n_epochs=1)
    peer = MLPClassifier((HIDDEN,), solver="sgd", batch_size=batch_size, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return measure.compare(lambda: ours.fit(X, y), lambda: peer.fit(X, y), repeats, time.perf_counter)


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    problems.add_data(parser)
    parser.add_argument("--draws", type=int, default=10, help="fits on a9a to average over (default: 10)")
    parser.add_argument("--network-draws", type=int, default=3, help="fits on MNIST to average over (default: 3)")
    parser.add_argument(
        "--epsilon", type=float, nargs="+", default=(0.03, 0.1, 0.3, 1.0, 10.0), help="for the linear model"
    )
    parser.add_argument("--network-epsilon", type=float, nargs="+", default=(2.0, 10.0), help="for the networks")
    parser.add_argument("--repeats", type=int, default=7, help="timed fits (default: 7)")
    parser.add_argument(
        "--only", choices=("linear", "log-loss", "network", "time", "batches"), help="print one table only"
    )
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse_arguments()
    bundle = arguments.data is None
    binary, digits = problems.read_adult(arguments.data), problems.read_digits(arguments.data)
    if arguments.only in (None, "linear"):
        for split, draws, goals in ((binary, arguments.draws, GOALS), (digits, arguments.network_draws, {})):
            unit = problems.unit_rows(split)
            table_of_linear_models(unit, arguments.epsilon, draws, "replace_one", {})
            table_of_linear_models(unit, arguments.epsilon, draws, "add_remove", {} if bundle else goals)
    if arguments.only in (None, "log-loss"):
        named = {"a9a" if not bundle else "breast cancer": binary, "MNIST" if not bundle else "digits": digits}
        named = {name: problems.unit_rows(split) for name, split in named.items()}
        named |= {f"weak signal, {n} rows": problems.weak_signal(n) for n in (5000, 20_000)}
        table_of_log_losses(named, arguments.epsilon, arguments.network_draws)
    if arguments.only in (None, "network"):
        table_of_networks(digits, arguments.network_epsilon, arguments.network_draws)
    if arguments.only == "batches":
        table_of_batches(digits, (32,), arguments.network_epsilon, arguments.network_draws)
        table_of_batches(problems.unit_rows(binary), (), arguments.network_epsilon, arguments.network_draws)
    if arguments.only in (None, "time"):
        table_of_times(digits, arguments.repeats)
