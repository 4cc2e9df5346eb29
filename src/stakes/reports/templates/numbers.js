// Numbers as stakes.text writes them, with a minus sign in place of a hyphen.

const MISSING = "–";
const MOST_DECIMALS = 9;
const PLAIN_DIGITS = 1e15;

/** A number with so many decimals, and commas between thousands; a power of ten where decimals are null. */
function fixedText(value, decimals) {
  if (value === null || value === undefined || Number.isNaN(value)) return MISSING;
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  if (decimals === null) return Number(value.toPrecision(3)).toExponential().replace(/e([+-])(\d)$/, "e$10$2").replaceAll("-", "−");
  const [whole, fraction] = Math.abs(value).toFixed(decimals).split(".");
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (fraction ? `.${fraction}` : "");
  return value < 0 && /[1-9]/.test(text) ? `−${text}` : text;
}

/** A single number with four digits, without zeros at its end; beside a much larger one it may be none. */
function numberText(value, beside = 0) {
  const size = Math.abs(value);
  const none = Math.max(1e-12, 1e-6 * beside);
  if (!(size >= none)) return fixedText(size < none && value !== null ? 0 : value, 0);
  const decimals = Math.max(0, 3 - Math.floor(Math.log10(size)));
  const text = fixedText(value, size < PLAIN_DIGITS && decimals <= MOST_DECIMALS ? decimals : null);
  return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text;
}

/** The ticks of an axis that are so far apart, with as many decimals as tell them apart. */
function tickTexts(ticks, step) {
  const isEnough = (decimals) => ticks.every((tick) => Math.abs(Number(tick.toFixed(decimals)) - tick) <= step / 1000);
  const enough = Array.from({ length: MOST_DECIMALS + 1 }, (_, decimals) => decimals).find(isEnough) ?? null;
  const decimals = ticks.every((tick) => Math.abs(tick) < PLAIN_DIGITS) ? enough : null;
  return ticks.map((tick) => fixedText(Math.abs(tick) < 1e-6 * step ? 0 : tick, decimals));
}

/** So many of something. */
const countText = (count, what) => `${numberText(count)} ${what}${count === 1 ? "" : "s"}`;
