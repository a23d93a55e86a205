import { Histogram } from '@tollway/chassis/metrics/histogram.ts'

/**
 * The statistics of one process: plain numbers under the names of envoyproxy/ratelimit. The decision path
 * adds to counters and histograms that it looked up before; sinks and the page `/stats` read them.
 */
export interface Stats {
  /** Created by the first call. */
  counter(name: string): StatCounter
  /** Returns a counter with this name that grows as the counter that it follows. */
  follower(name: string): Pick<FollowingCounter, 'follow'>
  /**
   * Creates a family: the counters of many members, such as limits, each of which has the same fields. The
   * name of a counter consists of `prefix`, the name of the member, a dot, and the suffix of the field. The
   * counters of a member are the fields of one object, and their names are created on demand: 10,000 limits
   * take 10 MiB less than with an object and a name for each counter.
   *
   * @param zeros creates the fields of a member, all 0; a field without a suffix is no statistic
   * @returns the counters of the member with a name; the first call creates them, later ones return the same
   * object
   */
  family<Counts extends Record<Field, number>, Field extends string>(
    prefix: string,
    suffixes: Readonly<Record<Field, string>>,
    zeros: () => Counts,
  ): (name: string) => Counts
  /** Registers a value that is read on demand. A second gauge with the same name replaces the first. */
  gauge(name: string, read: () => number): void
  /** The distribution of durations in milliseconds; created by the first call. */
  histogram(name: string): Histogram
  /** Returns all statistics sorted by name. Sorting takes time: use this only for pages that people read. */
  entries(): readonly Stat[]
  /**
   * All series of a kind in the order of creation, for sinks. These lists only grow, so that a sink may store
   * the last reported value of a series by its index.
   */
  readonly counters: Pick<Counters, 'length' | 'at' | typeof Symbol.iterator>
  readonly gauges: readonly Gauge[]
  readonly histograms: readonly NamedHistogram[]
}

export interface StatCounter {
  value: number
}

export interface NamedCounter extends StatCounter {
  readonly name: string
}

export interface Gauge {
  readonly name: string
  readonly read: () => number
}

export class NamedHistogram extends Histogram {
  readonly name: string

  constructor(name: string) {
    super()
    this.name = name
  }
}

interface Stat {
  readonly name: string
  readonly kind: 'counter' | 'gauge'
  readonly value: number
}

export function createStats(): Stats {
  const counters = new Counters()
  const gauges = createRegister<{ readonly name: string; read: () => number }>(name => ({
    name,
    read: () => 0,
  }))
  const histograms = createRegister(name => new NamedHistogram(name))
  return {
    counter: name => counters.get(name),
    follower: name => counters.getFollower(name),
    family: (prefix, suffixes, zeros) => counters.openFamily(prefix, suffixes, zeros),
    gauge(name, read) {
      gauges.get(name).read = read
    },
    histogram: histograms.get,
    entries() {
      const all: Stat[] = gauges.all.map(({ name, read }): Stat => ({ name, kind: 'gauge', value: read() }))
      for (const { name, value } of counters) all.push({ name, kind: 'counter', value })
      return all.sort((a, b) => (a.name < b.name ? -1 : 1))
    },
    counters,
    gauges: gauges.all,
    histograms: histograms.all,
  }
}

interface Member {
  readonly family: Family
  readonly name: string
  readonly counts: Record<string, number>
  /** The position of the member's first counter among all counters. */
  readonly position: number
}

interface Family {
  readonly prefix: string
  readonly fields: readonly string[]
  readonly suffixes: readonly string[]
  readonly members: Pick<ReadonlyMap<string, Member>, 'get'>
}

/** All counters by position. Those of a family are created on demand, as views of the fields of a member. */
class Counters implements Iterable<NamedCounter> {
  readonly #families: Family[] = []
  readonly #byName = new ShardedMap<NamedCounter>()
  /** A member occurs once for each of its fields. */
  readonly #positions: (NamedCounter | Member)[] = []

  get length(): number {
    return this.#positions.length
  }

  at(position: number): NamedCounter | undefined {
    const found = this.#positions[position]
    if (found === undefined || 'value' in found) return found
    return new MemberCounter(found, position - found.position)
  }

  *[Symbol.iterator](): Generator<NamedCounter, undefined> {
    for (let position = 0, next = this.at(0); next !== undefined; next = this.at(position)) {
      yield next
      position += 1
    }
    return undefined
  }

  get(name: string): NamedCounter {
    return this.#byName.get(name) ?? this.#findInFamilies(name) ?? this.#add({ name, value: 0 })
  }

  getFollower(name: string): FollowingCounter {
    const found = this.#byName.get(name)
    return found instanceof FollowingCounter ? found : this.#add(new FollowingCounter(name))
  }

  #add<T extends NamedCounter>(made: T): T {
    this.#byName.set(made.name, made)
    this.#positions.push(made)
    return made
  }

  openFamily<Counts extends Record<Field, number>, Field extends string>(
    prefix: string,
    suffixes: Readonly<Record<Field, string>>,
    zeros: () => Counts,
  ): (name: string) => Counts {
    const members = new ShardedMap<Member & { readonly counts: Counts }>()
    const fields = Object.keys(suffixes)
    const family: Family = { prefix, fields, suffixes: Object.values(suffixes), members }
    this.#families.push(family)
    return name => {
      const found = members.get(name)
      if (found !== undefined) return found.counts
      const member = { family, name, counts: zeros(), position: this.#positions.length }
      members.set(name, member)
      for (const _ of fields) this.#positions.push(member)
      return member.counts
    }
  }

  #findInFamilies(name: string): NamedCounter | undefined {
    for (const { prefix, suffixes, members } of this.#families) {
      const dot = name.lastIndexOf('.')
      const member = name.startsWith(prefix) ? members.get(name.slice(prefix.length, dot)) : undefined
      const index = suffixes.indexOf(name.slice(dot + 1))
      if (member !== undefined && index !== -1) return new MemberCounter(member, index)
    }
    return undefined
  }
}

class MemberCounter implements NamedCounter {
  readonly #member: Member
  readonly #index: number

  constructor(member: Member, index: number) {
    this.#member = member
    this.#index = index
  }

  get name(): string {
    const { family, name } = this.#member
    return `${family.prefix}${name}.${family.suffixes[this.#index]}`
  }

  get value(): number {
    const { family, counts } = this.#member
    return counts[family.fields[this.#index] ?? ''] ?? 0
  }

  set value(value: number) {
    const { family, counts } = this.#member
    counts[family.fields[this.#index] ?? ''] = value
  }
}

/**
 * A counter with a name of its own that grows as another counter does. When it follows a new counter, it
 * keeps its value.
 */
class FollowingCounter implements NamedCounter {
  readonly name: string
  #followed: StatCounter = { value: 0 }
  #ahead = 0

  constructor(name: string) {
    this.name = name
  }

  follow(counter: StatCounter): void {
    this.#ahead = this.value - counter.value
    this.#followed = counter
  }

  get value(): number {
    return this.#followed.value + this.#ahead
  }

  set value(value: number) {
    this.#ahead = value - this.#followed.value
  }
}

/** Keeps what `make` has made for each name, also in the order of creation. */
function createRegister<T>(make: (name: string) => T) {
  const byName = new ShardedMap<T>()
  const all: T[] = []
  return {
    all,
    get(name: string): T {
      let found = byName.get(name)
      if (found === undefined) {
        found = make(name)
        byName.set(name, found)
        all.push(found)
      }
      return found
    },
  }
}

/**
 * A map without long pauses for growth. A `Map` rehashes all entries when it is full: at half a million
 * entries that stops the process for 60 ms. Here each of 64 shards grows separately.
 */
export class ShardedMap<T> {
  readonly #shards = Array.from({ length: shardCount }, () => new Map<string, T>())

  get(key: string): T | undefined {
    return this.#pickShard(key)?.get(key)
  }

  set(key: string, value: T): void {
    this.#pickShard(key)?.set(key, value)
  }

  #pickShard(key: string): Map<string, T> | undefined {
    return this.#shards[hashText(key) & (shardCount - 1)]
  }
}

/** A power of 2, because `#pickShard` selects a shard by the lower bits of a hash. */
const shardCount = 64

function hashText(key: string): number {
  let hash = 0
  for (let index = 0; index < key.length; index += 1) {
    hash = (Math.imul(hash, 31) + key.charCodeAt(index)) | 0
  }
  return hash ^ (hash >>> 16)
}
