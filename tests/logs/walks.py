"""Logs of walks on a line whose values are known."""

import numpy as np

GOAL = 5


def walk(n_episodes, seed, views=1, right=0.5):
    """Walk on a line: right (1) leads up with chance 0.8, left (0) ends it for nothing at 0."""
    rng = np.random.default_rng(seed)
    rows = {name: [] for name in ("place", "step", "paid", "walk", "over", "chance")}
    for number in range(n_episodes):
        x = 2
        for _ in range(30):
            action = int(rng.random() < right)
            up = rng.random() < (0.8 if action else 0.2)
            x2 = x + (1 if up else -1)
            over = x2 < 0 or x2 == GOAL
            rows["place"].append(x * views + int(rng.integers(views)))
            rows["step"].append(action)
            rows["paid"].append(float(x2 == GOAL))
            rows["walk"].append(number)
            rows["over"].append(over)
            rows["chance"].append(right if action else 1 - right)
            x = x2
            if over:
                break
    return rows


def true_value(policy):
    """The chance of reaching the goal, of (n, 2) probabilities by place."""
    up = policy @ np.array([0.2, 0.8])
    matrix = np.zeros((GOAL, GOAL))
    for x in range(GOAL):
        if x + 1 < GOAL:
            matrix[x, x + 1] = up[x]
        if x > 0:
            matrix[x, x - 1] = 1 - up[x]
    ends = np.zeros(GOAL)
    ends[-1] = up[-1]
    return float(np.linalg.solve(np.eye(GOAL) - 0.999 * matrix, ends)[2])
