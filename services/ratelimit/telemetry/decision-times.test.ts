import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Histogram } from '@tollway/chassis/metrics/histogram.ts'
import { createStats } from '../stats/stats.ts'
import { createDecisionTimes } from './report-session.ts'

test('the decisions of gRPC and /json since the last report, and their quantiles', () => {
  const stats = createStats()
  const jsonTimes = new Histogram()
  const times = createDecisionTimes({ stats, jsonTimes })
  assert.deepEqual(times(), { decisions: 0, p50Ms: 0, p99Ms: 0 })
  const grpcTimes = stats.histogram('ratelimit_server.ShouldRateLimit.response_time')
  for (let call = 0; call < 90; call++) grpcTimes.record(1)
  for (let call = 0; call < 10; call++) jsonTimes.record(20)
  const { decisions, p50Ms, p99Ms } = times()
  assert.equal(decisions, 100)
  // A bucket of the histogram is at most 1/32 of its value wide.
  assert.ok(Math.abs(p50Ms - 1) <= 1 / 32, `p50 ${p50Ms}`)
  assert.ok(Math.abs(p99Ms - 20) <= 20 / 32, `p99 ${p99Ms}`)
  assert.deepEqual(times(), { decisions: 0, p50Ms: 0, p99Ms: 0 })
})
