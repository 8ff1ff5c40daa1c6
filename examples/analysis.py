"""A season of ice-cream sales: make data, group it, fit a line, print a table, save a plot.

The plot goes to sales.png in the working directory.
"""

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SHOPS = {"harbour": 1.4, "market": 1.0, "station": 0.7}  # how busy each one is


def sales(days: int = 120) -> pd.DataFrame:
    """Makes one row per day and shop: date, shop, temperature, cones sold."""
    rng = np.random.default_rng(7)
    dates = pd.date_range("2026-05-01", periods=days, freq="D")
    temperature = 18 + 8 * np.sin(np.linspace(0, np.pi, days)) + rng.normal(0, 2, days)
    frames = []
    for shop, busy in SHOPS.items():
        cones = busy * (9 * temperature - 80) + rng.normal(0, 12, days)
        frames.append(
            pd.DataFrame(
                {
                    "date": dates,
                    "shop": shop,
                    "temperature": temperature,
                    "cones": cones.clip(0).round().astype("int64"),
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Sums up each shop, with the line cones = slope * temperature + base fitted to its days."""
    rows = frame.groupby("shop")["cones"].agg(total="sum", mean="mean", best="max")
    for shop, group in frame.groupby("shop"):
        slope, base = np.polyfit(group["temperature"], group["cones"], 1)
        rows.loc[shop, ["slope", "base"]] = slope, base
    return rows.sort_values("total", ascending=False).round(1)


def plot(frame: pd.DataFrame, lines: pd.DataFrame, path: str) -> None:
    """Draws every day as a dot and every shop's line through them."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for shop, group in frame.groupby("shop"):
        dots = axes.scatter(group["temperature"], group["cones"], s=9, alpha=0.6, label=shop)
        ends = np.array([group["temperature"].min(), group["temperature"].max()])
        slope, base = lines.loc[shop, ["slope", "base"]]
        axes.plot(ends, slope * ends + base, color=dots.get_facecolor()[0], alpha=1.0)
    axes.set(title="Warm days sell", xlabel="temperature, °C", ylabel="cones sold")
    axes.legend()
    figure.savefig(path, dpi=110)


frame = sales()
summary = table(frame)
print(f"{len(frame)} rows, {frame['date'].min():%d %B} to {frame['date'].max():%d %B %Y}\n")
print(summary.to_string())
monthly = frame.pivot_table("cones", frame["date"].dt.strftime("%m %B"), "shop", aggfunc="sum")
print("\n" + monthly.to_string())
plot(frame, summary, "sales.png")
print("\nplot saved to sales.png")
