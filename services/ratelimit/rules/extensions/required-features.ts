import type { RateLimitDomain, RateLimitPolicy, RateLimitRule } from '../rate-limit-domain.ts'

/**
 * The extensions of the reference's language that this version enforces. Pods list them in the feed's node
 * metadata, and the operator sends a domain to pods that list all that it needs. The names are a contract.
 */
export const features = [
  'windows',
  'calendar',
  'algorithms',
  'limits',
  'allOrNothing',
  'headers',
  'countRejected',
] as const

export type Feature = (typeof features)[number]

const inOneStep: readonly Feature[] = ['algorithms', 'limits', 'allOrNothing']

/** Whether the feature counts a call in one step of the backend, as a whole or not at all. */
export const countsInOneStep = (feature: Feature): boolean => inOneStep.includes(feature)

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
  const { unitMultiplier, calendar, algorithm = 'FixedWindow', burst, headers = true, countRejected } = limit
  if (unitMultiplier !== undefined) needed.add('windows')
  if (calendar !== undefined) needed.add('calendar')
  if (algorithm !== 'FixedWindow' || burst !== undefined) needed.add('algorithms')
  if (!headers) needed.add('headers')
  if (countRejected) needed.add('countRejected')
}
