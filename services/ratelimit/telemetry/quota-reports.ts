import type { BucketReading, SharedBucket } from '../quota/quota-buckets.ts'
import type { ShareHolder } from '../shares/shares.ts'
import { contentHash, hashText, startHash } from './content-hash.ts'

/** What the proxies of this process share of one domain. */
export interface DomainShares {
  readonly domain: string
  readonly members: number
  readonly rules: readonly RuleShares[]
}

interface RuleShares {
  readonly rule: string
  /** The limit of a bucket, and what full buckets of all proxies have together. */
  readonly tokens: number
  readonly maxTokens: number
  readonly buckets: number
  /** The buckets of which each proxy has its share. */
  readonly settled: number
  readonly assigned: number
  /** The most proxies of one bucket. */
  readonly mostMembers: number
  /** The smallest hashes of the buckets' names, from which the operator counts the buckets of all processes. */
  readonly sketch: readonly number[]
}

const maxRules = 20
const sketchSize = 64

/** Sums up what proxies share, by domain and rule. */
export function sumShares(
  buckets: Iterable<SharedBucket>,
  members: ReadonlyMap<string, number>,
): readonly DomainShares[] {
  const domains = new Map<string, Map<string, RuleSum>>()
  for (const bucket of buckets) {
    const rules = domains.get(bucket.domain) ?? new Map<string, RuleSum>()
    domains.set(bucket.domain, rules)
    const sum = rules.get(bucket.rule) ?? new RuleSum(bucket)
    rules.set(bucket.rule, sum)
    sum.add(bucket)
  }
  return Array.from(domains, ([domain, rules]) => ({
    domain,
    members: members.get(domain) ?? 0,
    rules: [...rules.values()].sort((one, other) => other.buckets - one.buckets).slice(0, maxRules),
  }))
}

class RuleSum implements RuleShares {
  readonly rule: string
  readonly tokens: number
  readonly maxTokens: number
  buckets = 0
  settled = 0
  assigned = 0
  mostMembers = 0
  readonly sketch: number[] = []

  constructor({ rule, capacity }: SharedBucket) {
    this.rule = rule
    this.tokens = capacity.tokens
    this.maxTokens = capacity.maxTokens
  }

  add({ name, members, assigned, isSettled }: SharedBucket): void {
    this.buckets += 1
    this.settled += Number(isSettled)
    this.assigned += assigned
    this.mostMembers = Math.max(this.mostMembers, members)
    const { sketch } = this
    const hash = hashName(name)
    if (sketch.length === sketchSize && hash >= (sketch.at(-1) ?? 0)) return
    const at = sketch.findIndex(other => other >= hash)
    if (sketch[at] === hash) return
    sketch.splice(at === -1 ? sketch.length : at, 0, hash)
    if (sketch.length > sketchSize) sketch.pop()
  }
}

/** Returns 32 bits, each of which depends on all characters. */
function hashName(name: string): number {
  startHash()
  hashText(name)
  const mixed = Math.imul(contentHash.low ^ (contentHash.low >>> 16), 0x85ebca6b)
  const again = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (again ^ (again >>> 16)) >>> 0
}

const maxHolders = 1_000

/** Returns the message for a bucket; one without a rule if no rule shares it. */
export function toBucketMessage(id: bigint, reading: BucketReading | undefined) {
  if (reading === undefined) return { case: 'bucket', value: { id } } as const
  const { rule, capacity, process, members, holders, problem } = reading
  const value = {
    id,
    rule,
    tokens: BigInt(capacity.tokens),
    intervalSeconds: capacity.intervalSeconds,
    process,
    members: toHolders(members),
    memberCount: members.length,
    wanted: sum(members, 'wanted'),
    granted: sum(members, 'granted'),
    holders: toHolders(holders),
    problem,
  }
  return { case: 'bucket', value } as const
}

function toHolders(holders: readonly ShareHolder[]) {
  const most = holders.toSorted((one, other) => other.granted - one.granted).slice(0, maxHolders)
  return most.map(({ name, wanted, granted, expiresInMs }) => ({
    name,
    wanted: BigInt(wanted),
    granted: BigInt(granted),
    expiresInMs: BigInt(Math.max(0, Math.round(expiresInMs))),
  }))
}

function sum(holders: readonly ShareHolder[], field: 'wanted' | 'granted'): bigint {
  return BigInt(holders.reduce((total, holder) => total + holder[field], 0))
}
