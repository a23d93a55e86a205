import { algorithmsCases } from './algorithms-case.ts'
import type { BenchCase } from './bench-case.ts'
import { capturesCase } from './captures-case.ts'
import {
  type Comparison,
  cpuRatio,
  latencyRatio,
  rateRatio,
  redisCommands,
  rssBeyondNode,
} from './compare.ts'
import { generous, nestedQuestions, nestedRules, userQuestions, userRule } from './configurations.ts'
import { type ContestCase, contestCase } from './contest-case.ts'
import { bareDecisions, oursWith, reference, yardstick } from './contestants.ts'
import { envoyCase } from './envoy-case.ts'
import { fanOutCases } from './fan-out-cases.ts'
import type { Goal } from './goals.ts'
import { h2loadCase } from './h2load-case.ts'
import { idleCase } from './idle-case.ts'
import { leasesCases } from './leases-case.ts'
import { manyStreamsCase } from './many-streams-case.ts'
import { paymentReadsCase } from './payment-reads-case.ts'
import { quotaCase } from './quota-case.ts'
import { reloadCases } from './reload-cases.ts'
import { reportsCases } from './reports-case.ts'
import { reserveCommitCases } from './reserve-commit-case.ts'
import { matchCase, rulesCase } from './rules-case.ts'
import { stalledConsumerCase } from './stalled-consumer-case.ts'
import { twoBrokersCases } from './two-brokers-case.ts'

const keys = 10_000
const rules = 10_000

/** The defaults of the cases. */
const uniformKeys: Omit<ContestCase, 'name' | 'title' | 'comparisons'> = {
  protocol: 'grpc',
  rules: userRule(generous),
  limit: generous,
  over: false,
  questions: userQuestions(keys),
  connections: 1,
  streams: 100,
}

const localCacheBytes = 64 * 1024 * 1024

const contests: readonly ContestCase[] = [
  {
    ...uniformKeys,
    name: 'uniform-keys',
    title: '10,000 uniform keys, 100 streams in flight',
    comparisons: [
      { ...cpuRatio, goal: { atMost: 1 / 6 } },
      { ...rateRatio, goal: { atLeast: 6 } },
      redisCommands(1.1),
    ],
  },
  {
    ...uniformKeys,
    name: 'hot-key',
    title: 'one hot key, 100 streams in flight',
    questions: userQuestions(1),
    comparisons: [{ ...cpuRatio, goal: { atMost: 1 / 12 } }, redisCommands(0.1)],
  },
  {
    ...uniformKeys,
    name: 'nested',
    title: 'two nested descriptors, 10,000 rules, 100 streams in flight',
    rules: nestedRules(rules),
    questions: nestedQuestions(rules, keys),
    comparisons: [
      { ...cpuRatio, goal: { atMost: 1 / 6 } },
      { what: 'RSS under load', figure: 'rssMiB', unit: 'MiB', of: 'ours', goal: { atMost: 120 } },
    ],
  },
  {
    ...uniformKeys,
    name: 'over-limit',
    title: '10,000 uniform keys over their limit, local cache, 100 streams in flight',
    rules: userRule(1),
    limit: 1,
    over: true,
    settings: { LOCAL_CACHE_SIZE_IN_BYTES: `${localCacheBytes}` },
    comparisons: [{ ...cpuRatio, goal: { atMost: 1 / 15 } }],
  },
  {
    ...uniformKeys,
    name: 'memory',
    title: '10,000 uniform keys, counters in memory, 100 streams in flight',
    settings: { BACKEND_TYPE: 'memory' },
    comparisons: [{ ...cpuRatio, goal: { atMost: 1 / 15 } }],
  },
  {
    ...uniformKeys,
    name: 'one-at-a-time',
    title: 'one call at a time on one connection',
    streams: 1,
    others: [yardstick, reference, bareDecisions],
    comparisons: [
      latencyRatio('p50Ms', 1 / 2),
      latencyRatio('p99Ms', 1 / 2),
      cpuToReference({ atMost: 0.45, bearable: 1 }),
    ],
  },
  {
    ...uniformKeys,
    name: 'half-capacity',
    title: '100 connections × 10 streams at half the capacity',
    connections: 100,
    streams: 10,
    pace: 'half capacity',
    comparisons: [latencyRatio('p99Ms', 1 / 4)],
  },
  {
    ...uniformKeys,
    name: 'http-json',
    title: 'HTTP /json, 100 connections',
    protocol: 'json',
    connections: 100,
    streams: 1,
    others: [reference, yardstick],
    comparisons: [
      { ...rateRatio, goal: { atLeast: 1 } },
      { ...cpuRatio, goal: { atMost: 1 } },
    ],
  },
  {
    ...uniformKeys,
    name: 'workers',
    title: 'two workers against one, 20 connections × 10 streams',
    connections: 20,
    streams: 10,
    settings: { WORKERS: '2' },
    others: [oursWith('one worker', {})],
    comparisons: [{ ...cpuRatio, goal: { atMost: 1.1 } }],
  },
]

/** Random arrivals over 100 connections, as from many independent callers. */
function arrivals(
  randomPerSecond: number,
  goal: number,
  others = [reference, yardstick, bareDecisions],
  comparisons: readonly Comparison[] = [],
): ContestCase {
  return {
    ...uniformKeys,
    name: `arrivals-${randomPerSecond}`,
    long: true,
    title: `100 connections, random arrivals, ${randomPerSecond.toLocaleString('en')}/s in all`,
    connections: 100,
    // More than are in flight on one connection, unless the server pauses.
    streams: 10,
    pace: { randomPerSecond },
    others,
    comparisons: [cpuToReference({ atMost: goal, bearable: 1 }), ...comparisons],
  }
}

/** The load of several callers, compared with the service that this one replaces. */
const users: readonly ContestCase[] = [
  {
    ...uniformKeys,
    name: '10-connections',
    title: '10 connections × 10 in flight, 10,000 keys',
    connections: 10,
    streams: 10,
    others: [reference, yardstick, bareDecisions],
    comparisons: [cpuToReference({ atMost: 0.28 }), rssBeyondNode({ atMost: 30, bearable: 80 })],
  },
  {
    ...uniformKeys,
    name: '100-connections',
    long: true,
    title: '100 connections × 10 in flight, 100,000 keys',
    questions: userQuestions(100_000),
    connections: 100,
    streams: 10,
    others: [reference, yardstick, bareDecisions],
    comparisons: [cpuToReference({ atMost: 0.2 }), rssBeyondNode({ atMost: 60, bearable: 160 })],
  },
  arrivals(
    1000,
    0.5,
    [reference, yardstick, bareDecisions],
    [{ ...latencyRatio('p99Ms', 1), against: reference.name }],
  ),
  arrivals(5000, 0.3),
  // More than the yardstick can handle.
  arrivals(15_000, 0.25, [reference, bareDecisions]),
  {
    ...uniformKeys,
    name: 'memory-10',
    long: true,
    title: '10 connections × 10 in flight, counters in memory',
    connections: 10,
    streams: 10,
    settings: { BACKEND_TYPE: 'memory' },
    comparisons: [
      { what: 'CPU a decision', figure: 'cpuMicros', unit: 'µs', of: 'ours', goal: { atMost: 10.2 } },
      { what: 'p99', figure: 'p99Ms', unit: 'ms', of: 'ours', goal: { atMost: 2.1 } },
    ],
    note: 'the goals are the figures of Limitador (Rust), counters in memory, of another run on 2026-11-22',
  },
]

/** The floor of bare sockets is near some of these goals, so half of them is unreachable. */
function cpuToReference(goal: Goal): Comparison {
  return { ...cpuRatio, against: reference.name, goal }
}

/** The cases of the rate limit service. */
export const decisionCases: readonly BenchCase[] = [
  ...[...contests, ...users].map(contestCase),
  idleCase,
  rulesCase,
  matchCase,
  ...reloadCases,
  envoyCase,
  h2loadCase,
  ...algorithmsCases,
  ...leasesCases,
  ...reserveCommitCases,
  ...reportsCases,
  quotaCase,
]

/** The cases of the broker. */
export const streamCases: readonly BenchCase[] = [
  ...fanOutCases,
  stalledConsumerCase,
  manyStreamsCase,
  ...twoBrokersCases,
]

/** The cases of the payments service. */
export const paymentCases: readonly BenchCase[] = [capturesCase, paymentReadsCase]

export const cases: readonly BenchCase[] = [...decisionCases, ...streamCases, ...paymentCases]
