import type { BenchCase } from './bench-case.ts'
import { capturesCase } from './captures-case.ts'
import { cpuRatio, latencyRatio, rateRatio, redisCommands } from './compare.ts'
import { generous, nestedQuestions, nestedRules, userQuestions, userRule } from './configurations.ts'
import { envoyCase } from './envoy-case.ts'
import { fanOutCases } from './fan-out-cases.ts'
import { h2loadCase } from './h2load-case.ts'
import { manyStreamsCase } from './many-streams-case.ts'
import { type PairCase, pairCase } from './pair-case.ts'
import { paymentReadsCase } from './payment-reads-case.ts'
import { rulesCase } from './rules-case.ts'
import { stalledConsumerCase } from './stalled-consumer-case.ts'
import { twoBrokersCase } from './two-brokers-case.ts'

const keys = 10_000
const rules = 10_000

/** What the cases share unless they say else. */
const uniformKeys: Omit<PairCase, 'name' | 'title' | 'comparisons'> = {
  protocol: 'grpc',
  rules: userRule(generous),
  limit: generous,
  over: false,
  questions: userQuestions(keys),
  connections: 1,
  streams: 100,
}

const localCacheBytes = 64 * 1024 * 1024

const pairs: readonly PairCase[] = [
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
    comparisons: [latencyRatio('p50Ms', 1 / 2), latencyRatio('p99Ms', 1 / 2)],
  },
  {
    ...uniformKeys,
    name: 'half-capacity',
    title: '100 connections × 10 streams at half the capacity',
    connections: 100,
    streams: 10,
    atHalfCapacity: true,
    comparisons: [latencyRatio('p99Ms', 1 / 4)],
  },
  {
    ...uniformKeys,
    name: 'http-json',
    title: 'HTTP /json, 100 connections',
    protocol: 'json',
    connections: 100,
    streams: 1,
    withFloor: true,
    comparisons: [
      { ...rateRatio, goal: { atLeast: 3 } },
      { ...cpuRatio, goal: { atMost: 1 / 3 } },
    ],
  },
  {
    ...uniformKeys,
    name: 'workers',
    title: 'two workers against one, 20 connections × 10 streams',
    connections: 20,
    streams: 10,
    settings: { WORKERS: '2' },
    againstOurs: { name: 'one worker', settings: {} },
    comparisons: [{ ...cpuRatio, goal: { atMost: 1.1 } }],
  },
]

/** Of the rate limit service. */
export const decisionCases: readonly BenchCase[] = [...pairs.map(pairCase), rulesCase, envoyCase, h2loadCase]

/** Of the broker. */
export const streamCases: readonly BenchCase[] = [
  ...fanOutCases,
  stalledConsumerCase,
  manyStreamsCase,
  twoBrokersCase,
]

/** Of the payments service. */
export const paymentCases: readonly BenchCase[] = [capturesCase, paymentReadsCase]

export const cases: readonly BenchCase[] = [...decisionCases, ...streamCases, ...paymentCases]
