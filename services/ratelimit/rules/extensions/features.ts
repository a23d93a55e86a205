import type { RateLimitDomain, RateLimitPolicy, RateLimitRule } from '../config.ts'

/**
 * The extensions of the reference's language. Pods list in the feed's node metadata those that they enforce,
 * and the operator sends a domain to pods that list all that it needs. The names are a contract.
 */
export const features = ['windows', 'calendar', 'algorithms', 'limits', 'allOrNothing', 'headers'] as const

export type Feature = (typeof features)[number]

/** The features that this version enforces, which its pods list. */
export const enforcedFeatures: readonly Feature[] = [
  'windows',
  'calendar',
  'algorithms',
  'limits',
  'allOrNothing',
]

/** The features that a process needs to enforce the domain, in the order of `features`. */
export function featuresOf({
  descriptors,
  allOrNothing,
}: Pick<RateLimitDomain, 'descriptors' | 'allOrNothing'>): readonly Feature[] {
  const needed = new Set<Feature>()
  if (allOrNothing) needed.add('allOrNothing')
  addFeatures(descriptors, needed)
  return needed.size === 0 ? noFeatures : features.filter(feature => needed.has(feature))
}

/** Throws for a domain that needs a feature which this version does not enforce. */
export function checkFeatures(domain: Pick<RateLimitDomain, 'descriptors' | 'allOrNothing'>): void {
  const missing = featuresOf(domain).filter(feature => !enforcedFeatures.includes(feature))
  if (missing.length === 0) return
  throw new Error(`needs ${missing.join(', ')}, which this version of the program does not enforce`)
}

const noFeatures: readonly Feature[] = []

function addFeatures(rules: readonly RateLimitRule[], needed: Set<Feature>): void {
  for (const { rateLimit, limits, descriptors } of rules) {
    if (rateLimit !== undefined) addFeaturesOf(rateLimit, needed)
    if (limits !== undefined) {
      needed.add('limits')
      for (const limit of limits) addFeaturesOf(limit, needed)
    }
    addFeatures(descriptors, needed)
  }
}

function addFeaturesOf(limit: RateLimitPolicy, needed: Set<Feature>): void {
  const { unitMultiplier, calendar, algorithm = 'FixedWindow', burst, headers = true } = limit
  if (unitMultiplier !== undefined) needed.add('windows')
  if (calendar !== undefined) needed.add('calendar')
  if (algorithm !== 'FixedWindow' || burst !== undefined) needed.add('algorithms')
  if (!headers) needed.add('headers')
}
