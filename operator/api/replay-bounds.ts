import type { WhatIfAnswer } from './shapes.ts'

const { format: formatCount } = new Intl.NumberFormat('en')

type Hits = WhatIfAnswer['rules'][number]['now']

/** Hits whose bounds may be missing: operators of earlier versions do not send them. */
type Bounded = Pick<Hits, 'refused'> & Partial<Hits>

/** Returns the bounds, such as `34 to 41`; empty text if the number is exact. */
export function formatBounds({
  refused,
  refusedAtLeast = refused,
  refusedAtMost = refused,
}: Bounded): string {
  return refusedAtLeast === refusedAtMost
    ? ''
    : `${formatCount(refusedAtLeast)} to ${formatCount(refusedAtMost)}`
}

/**
 * A difference of clocks up to which no caveat is needed: it can change the decisions of a few calls only.
 */
const smallClocksMs = 100

/**
 * Returns the reasons why the answer is not exact, one sentence each.
 *
 * @param display returns the name of a pod in a form that is safe for the page or the terminal
 */
export function describeCaveats(
  { rules, coverage }: Pick<WhatIfAnswer, 'rules' | 'coverage'>,
  display: (name: string) => string,
): readonly string[] {
  const { share, resolutionMs = 1, clocksMs = 0, started = [] } = coverage as Partial<typeof coverage>
  const isSampled = share !== undefined && share < 1
  const hasBounds = rules.some(
    ({ now, proposed }) => formatBounds(now) !== '' || formatBounds(proposed) !== '',
  )
  const found: readonly (readonly [boolean, string])[] = [
    [
      isSampled,
      `One of ${1 / (share ?? 1)} keys is recorded, with all its calls; the hits of rules are estimates.`,
    ],
    [hasBounds, 'Brackets have the bounds: counters may have had hits from before the recording.'],
    [resolutionMs > 1, 'Times are whole seconds, so a token bucket or a sliding window may differ slightly.'],
    [clocksMs > smallClocksMs, `The clocks of the pods differ by up to ${formatCount(clocksMs)} ms.`],
    [
      started.length > 0,
      `Calls before the start of ${started.map(display).join(', ')}, at pods that are gone, are missing.`,
    ],
  ]
  return found.flatMap(([isSo, sentence]) => (isSo ? [sentence] : []))
}
