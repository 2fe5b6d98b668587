"""A small training that really computes: logistic regression by gradient descent, with numpy alone.

It knows nothing of assay except one optional import: run by hand, it prints; run by `assay run`, its
numbers are collected.

    python examples/train.py --folds 2 --epochs 200
    assay run examples/program.yaml
"""

import argparse
import time

import numpy as np

import assay


def rows(count: int, features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping clouds of points and the cloud that each point is from."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    points = random.normal(size=(count, features)) + 0.35 * (2 * labels[:, None] - 1)
    return points, labels.astype(float)


def chance(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """How likely each point is from the second cloud."""
    return 1 / (1 + np.exp(-(points @ weights)))


def train(points: np.ndarray, labels: np.ndarray, epochs: int) -> np.ndarray:
    """Fit the weights by gradient descent."""
    weights = np.zeros(points.shape[1])
    for _ in range(epochs):
        weights -= 0.5 * points.T @ (chance(points, weights) - labels) / len(labels)
    return weights


def loss(points: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """Mean cross entropy."""
    guess = chance(points, weights)
    return float(-np.log(np.where(labels == 1, guess, 1 - guess)).mean())


def main() -> None:
    """Train and test once per fold."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--folds", type=int, default=2)
    options.add_argument("--epochs", type=int, default=200)
    asked = options.parse_args()
    points, labels = rows(40_000, 32, seed=0)
    losses, seen, spent_s = [], 0, 0.0
    for fold in range(asked.folds):
        test = np.arange(len(labels)) % asked.folds == fold
        begin = time.perf_counter()
        weights = train(points[~test], labels[~test], asked.epochs)
        spent_s += time.perf_counter() - begin
        seen += asked.epochs * int((~test).sum())
        right = (chance(points[test], weights) > 0.5) == labels[test]
        print(f"== fold {fold}")
        print(f"   tested on {test.sum()} rows")
        print(f"   accuracy {right.mean():.4f}")
        losses.append(loss(points[test], labels[test], weights))
    print(f"speed: {seen / spent_s:.4e} rows/s")
    assay.emit({"loss": np.mean(losses)})


if __name__ == "__main__":
    main()
