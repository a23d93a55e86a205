import assert from 'node:assert/strict'
import { test } from 'node:test'
import { filesReading, openConfiguration } from './config/testing/open-configuration.ts'
import { createRateLimitHealth } from './health.ts'

function open(withConfig: boolean, answered = true) {
  let tellHealth = (_: boolean) => {}
  const counters = {
    problem: 'connection refused',
    healthy: answered,
    onHealth(listener: (healthy: boolean) => void) {
      tellHealth = listener
    },
  }
  const { configuration } = openConfiguration('snake')
  const health = createRateLimitHealth({ counters, configuration, withConfig })
  health.serve()
  const told: boolean[] = []
  health.onChange(healthy => told.push(healthy))
  const backend = (healthy: boolean) => {
    counters.healthy = healthy
    tellHealth(healthy)
  }
  const load = (files: Readonly<Record<string, string>>) => configuration.load(filesReading(files))
  return { health, told, backend, load }
}

test('health follows the backend, and listeners get it at once and at each change', () => {
  const { health, told, backend } = open(false, false)
  assert.equal(health.problem, 'the backend of its counters is away: connection refused')
  assert.equal(health.healthy, false)
  for (const healthy of [true, true, false, true]) backend(healthy)
  assert.deepEqual(told, [false, true, false, true])
  assert.equal(health.healthy, true)
})

test('with withConfig, health requires a configuration with a domain', async () => {
  assert.equal(open(false).health.healthy, true)
  const { told, load } = open(true)
  await load({})
  await load({ 'a.yaml': 'domain: a' })
  await load({ 'a.yaml': 'domain: b' })
  await load({})
  assert.deepEqual(told, [false, true, false])
})

test('after terminate the process stays unhealthy', () => {
  const { health, told, backend } = open(false)
  assert.equal(health.terminating, false)
  health.terminate()
  assert.equal(health.terminating, true)
  backend(false)
  backend(true)
  assert.equal(health.healthy, false)
  assert.deepEqual(told, [true, false])
})

test('after terminate the process accepts calls until it closes, if nothing else prevents it', () => {
  const { health, backend } = open(false)
  health.terminate()
  assert.equal(health.problem, 'is ending')
  assert.equal(health.acceptProblem, '')
  backend(false)
  assert.match(health.acceptProblem, /^the backend of its counters is away/)
  backend(true)
  health.close()
  assert.equal(health.acceptProblem, 'is ending')
})
