import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openConfiguration } from './feeds/configuration-under-test.ts'
import { createHealth } from './health.ts'
import { parseYaml } from './rules/parse-yaml.ts'

function open(withConfig: boolean, answered = true) {
  let tellHealth = (_: boolean) => {}
  const counters = {
    problem: 'nobody answers',
    healthy: answered,
    onHealth(listener: (healthy: boolean) => void) {
      tellHealth = listener
    },
  }
  const { configuration } = openConfiguration('snake')
  const health = createHealth({ counters, configuration, withConfig })
  const told: boolean[] = []
  health.onChange(healthy => told.push(healthy))
  const backend = (healthy: boolean) => {
    counters.healthy = healthy
    tellHealth(healthy)
  }
  const load = (text: string) => {
    const parsed = parseYaml('a.yaml', text)
    assert.ok('value' in parsed)
    configuration.load([parsed.value], [])
  }
  return { health, told, backend, load, clear: () => configuration.load([], []) }
}

test('health follows the backend, and is told at once and at each change', () => {
  const { health, told, backend } = open(false, false)
  assert.equal(health.healthy(), false)
  for (const healthy of [true, true, false, true]) backend(healthy)
  assert.deepEqual(told, [false, true, false, true])
  assert.equal(health.healthy(), true)
})

test('a configuration counts only when it is asked for, and only with a domain', () => {
  assert.equal(open(false).health.healthy(), true)
  const { told, load, clear } = open(true)
  clear()
  load('domain: a')
  load('domain: b')
  clear()
  assert.deepEqual(told, [false, true, false])
})

test('a process that was told to end is unhealthy for ever, whatever else happens', () => {
  const { health, told, backend } = open(false)
  assert.equal(health.terminating(), false)
  health.terminate()
  assert.equal(health.terminating(), true)
  backend(false)
  backend(true)
  assert.equal(health.healthy(), false)
  assert.deepEqual(told, [true, false])
})
