// Axes of charts: round ticks for amounts and for UTC times.
import { DAYS, MONTHS, two } from "./dom.js";

const MINUTE = 60e3, HOUR = 3600e3, DAY = 86400e3;
const STEPS = [1, 2, 5, 10, 15, 30].map((each) => each * MINUTE)
  .concat([1, 2, 3, 6, 12].map((each) => each * HOUR), [1, 2, 7, 14, 30].map((each) => each * DAY));

// Round amounts between two others: 0, 0.5, 1.
export function amountTicks(low, high, most) {
  const rough = Math.max(high - low, 1e-9) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
}

// The digits that tell two neighboring ticks apart; cents at least.
export const digitsOf = (ticks) => {
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
  return [2, 3, 4].find((digits) => Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) < 1e-6) ?? 5;
};

// Round times in a window, each with its label: the time of day, or the day if it is midnight or the steps are days.
export function timeTicks(from, to, most) {
  const step = STEPS.find((each) => (to - from) / each <= most) ?? STEPS.at(-1);
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const when = new Date(at), midnight = at % DAY === 0;
    ticks.push({ at, text: midnight ? `${DAYS[when.getUTCDay()]} ${two(when.getUTCDate())} ${MONTHS[when.getUTCMonth()]}` : `${two(when.getUTCHours())}:${two(when.getUTCMinutes())}`, midnight });
  }
  return ticks;
}
