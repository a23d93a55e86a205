import type { RateLimitDomain, RateLimitPolicy, RateLimitRule } from '../config.ts'

/**
 * The extensions of the reference's language that this version enforces. Pods list them in the feed's node
 * metadata, and the operator sends a domain to pods that list all that it needs. The names are a contract.
 */
export const features = ['windows', 'calendar'] as const

export type Feature = (typeof features)[number]

/** The features that a process needs to enforce the domain, in the order of `features`. */
export function featuresOf({ descriptors }: Pick<RateLimitDomain, 'descriptors'>): readonly Feature[] {
  const needed = new Set<Feature>()
  addFeatures(descriptors, needed)
  return needed.size === 0 ? noFeatures : features.filter(feature => needed.has(feature))
}

const noFeatures: readonly Feature[] = []

function addFeatures(rules: readonly RateLimitRule[], needed: Set<Feature>): void {
  for (const { rateLimit, descriptors } of rules) {
    if (rateLimit !== undefined) addFeaturesOf(rateLimit, needed)
    addFeatures(descriptors, needed)
  }
}

function addFeaturesOf({ unitMultiplier, calendar }: RateLimitPolicy, needed: Set<Feature>): void {
  if (unitMultiplier !== undefined) needed.add('windows')
  if (calendar !== undefined) needed.add('calendar')
}
