import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { systemClock } from '@tollway/chassis/clock.ts'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { createFileSource } from '../environments/host/resources.ts'

const deadlineMs = 10_000

export async function until(what: string, holds: () => boolean): Promise<void> {
  const endMs = performance.now() + deadlineMs
  while (!holds()) {
    assert.ok(performance.now() < endMs, `not within ${deadlineMs} ms: ${what}`)
    await pause(1)
  }
}

export function limits(name: string, domain = name): string {
  const envelope = `apiVersion: tollway.dev/v1alpha1\nkind: RateLimitConfig\nmetadata: {name: ${name}}\n`
  return `${envelope}spec: {domain: ${domain}}\n`
}

function standingClock() {
  let atMs = 1_000
  return { nowMs: () => atMs, monotonicMs: () => atMs, pass: (ms: number) => (atMs += ms) }
}

export async function open(
  t: TestContext,
  before: (folder: string) => void = () => {},
  more: Partial<Parameters<typeof createFileSource>[0]> = {},
) {
  const folder = temporaryFolder('tollway-files')
  const warnings: string[] = []
  before(folder)
  const source = createFileSource({
    folder,
    clock: systemClock,
    onWarn: (event, fields = {}) => warnings.push(`${event}: ${Object.values(fields).join('; ')}`),
    ...more,
  })
  t.after(async () => {
    await source.stop()
  })
  const told: string[] = []
  const names = () =>
    source
      .list()
      .map(({ name }) => name)
      .sort()
      .join(' ')
  const domainOf = (name: string) => {
    const spec = source.list().find(resource => resource.name === name)?.spec
    return (spec as { domain?: string } | undefined)?.domain
  }
  const problems = () => source.problems().map(({ origin, message }) => `${origin}: ${message}`)
  source.onChange(() => told.push(names()))
  await source.start()
  const at = (path: string) => join(folder, path)
  return {
    source,
    warnings,
    told,
    names,
    domainOf,
    problems,
    at,
    folder,
    write: (path: string, text: string) => writeFileSync(at(path), text),
    has: (expected: string) => until(`the resources are "${expected}"`, () => names() === expected),
    serves: (name: string, domain: string | undefined) =>
      until(`${name} has the domain ${domain}`, () => domainOf(name) === domain),
    complains: (pattern: RegExp) =>
      until(`a problem ${pattern}`, () => problems().some(text => pattern.test(text))),
    isClean: () => until('no problems', () => problems().length === 0),
  }
}

/** Opens a source with a stopped clock. `lookedAt` waits until the folder has been read after a change. */
export async function openStanding(t: TestContext, before: (folder: string) => void) {
  const clock = standingClock()
  const f = await open(t, before, { clock, settleMs: 0, pollMs: 5 })
  let round = 0
  const lookedAt = async () => {
    f.write('mark.yaml', limits('mark', `round-${++round}`))
    await f.serves('mark', `round-${round}`)
  }
  await lookedAt()
  return { ...f, clock, lookedAt }
}
