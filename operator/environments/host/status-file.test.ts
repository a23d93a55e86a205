import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import type { ResourceStatus } from '../../status/resource-status.ts'
import { isReady, type StatusReport } from '../../status/status-report.ts'
import { mayRun, readStatusReport, removeStatusReport, writeStatusReport } from './status-file.ts'
import { createProblemLog, listProblems } from './terminal/problem-log.ts'

function place(): string {
  const folder = temporaryFolder('status')
  return folder
}

const replica = { name: 'ratelimit-0', uid: 'a', ready: true, reason: '', restarts: 0, addresses: {} }
const report: StatusReport = {
  pid: process.pid,
  updatedAt: '2026-01-01T00:00:00.000Z',
  folder: '/limits',
  addresses: {},
  resources: [],
  replicas: [replica],
  problems: [],
}

function resource(ready: string, problems: ResourceStatus['problems'] = [], programmed = 'InFeed') {
  const condition = (type: string, reason: string) => ({
    type,
    status: reason === 'Enforced' || reason === 'InFeed' ? ('True' as const) : ('False' as const),
    reason,
    message: 'because',
    observedGeneration: 1,
    lastTransitionTime: '2026-01-01T00:00:00.000Z',
  })
  return {
    kind: 'RateLimitConfig',
    namespace: 'shop',
    name: 'a',
    uid: 'uid',
    origin: 'a.yaml',
    observedGeneration: 1,
    subject: 'd',
    counts: { rules: 1 },
    enforced: '1/1',
    problems,
    conditions: [condition('Programmed', programmed), condition('Ready', ready)],
  }
}

test('a report is read as it was written, until it is removed', () => {
  const stateDir = place()
  assert.equal(readStatusReport(stateDir), undefined)
  assert.equal(readStatusReport(join(stateDir, 'missing')), undefined)
  writeStatusReport(stateDir, report)
  assert.deepEqual(readStatusReport(stateDir), report)
  assert.equal(statSync(join(stateDir, 'status.json')).mode & 0o777, 0o600)
  removeStatusReport(stateDir)
  removeStatusReport(stateDir)
  assert.equal(readStatusReport(stateDir), undefined)
})

test('a report that cannot be parsed is an error, and does not count as missing', () => {
  const stateDir = place()
  writeFileSync(join(stateDir, 'status.json'), '{"pid":')
  assert.throws(() => readStatusReport(stateDir), SyntaxError)
})

test('a reader sees only whole reports while they are written', async () => {
  const stateDir = place()
  writeStatusReport(stateDir, report)
  const writer = `
    import { workerData } from 'node:worker_threads'
    const { writeStatusReport } = await import(workerData.module)
    const { stateDir, report } = workerData
    const long = { ...report, folder: 'x'.repeat(200_000) }
    for (let count = 0; count < 300; count++) writeStatusReport(stateDir, count % 2 === 0 ? long : report)
  `
  const module = new URL('status-file.ts', import.meta.url).href
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(writer)}`), {
    workerData: { module, stateDir, report },
  })
  const ended = new Promise((resolve, reject) => worker.on('exit', resolve).on('error', reject))
  let isOver = false
  void ended.finally(() => {
    isOver = true
  })
  let reads = 0
  while (!isOver) {
    assert.equal(readStatusReport(stateDir)?.pid, process.pid)
    reads += 1
    await new Promise(setImmediate)
  }
  await ended
  assert.ok(reads > 10, `${reads} reads`)
  assert.deepEqual(readdirSync(stateDir), ['status.json'])
})

test('a report of an operator that has ended does not count as running', () => {
  const { pid } = spawnSync(process.execPath, ['--version'])
  assert.equal(mayRun(report), true)
  assert.equal(mayRun({ ...report, pid }), false)
})

test('everything is ready when each resource, process and file is', () => {
  const table: readonly [string, Partial<StatusReport>, boolean][] = [
    ['no resources', {}, true],
    ['a ready resource', { resources: [resource('Enforced')] }, true],
    ['a pending resource', { resources: [resource('Enforced'), resource('Pending')] }, false],
    ['no process yet', { replicas: [] }, false],
    ['a process that is not ready', { replicas: [replica, { ...replica, ready: false }] }, false],
    ['a file that cannot be read', { problems: [{ origin: 'a.yaml', message: 'no' }] }, false],
  ]
  for (const [name, changes, expected] of table) {
    assert.equal(isReady({ ...report, ...changes }), expected, name)
  }
})

test('complaints name the file, the resource, the field and what stays in force', () => {
  const complaints = listProblems({
    ...report,
    problems: [{ origin: 'b.yaml', message: 'line 3: not YAML' }],
    resources: [
      resource('Enforced'),
      resource('Pending'),
      resource('Invalid', [{ path: 'spec.domain', message: 'is missing' }], 'LastGoodInForce'),
    ],
  })
  const place = 'a.yaml: RateLimitConfig shop/a'
  assert.deepEqual(complaints, [
    { place: 'b.yaml', message: 'line 3: not YAML', passing: false },
    { place, message: 'Pending: because', passing: true },
    { place, message: 'spec.domain: is missing', passing: false },
    { place, message: 'the last good version stays in force', passing: false },
  ])
})

test('the log reports a problem once, its end once, and at most 10 of them', () => {
  const lines: string[] = []
  const write =
    (level: string) =>
    (event: string, fields: object = {}) => {
      lines.push([level, event, ...Object.values(fields)].join(' '))
    }
  const logProblems = createProblemLog({ ...silentLog, warn: write('warn'), info: write('info') })
  const bad = { ...report, problems: [{ origin: 'b.yaml', message: 'not YAML' }] }
  for (const now of [{ ...report, resources: [resource('Pending')] }, bad, bad, report, report])
    logProblems(now)
  assert.deepEqual(lines, ['warn find problem b.yaml not YAML', 'info resolve problem b.yaml not YAML'])

  lines.length = 0
  const problems = Array.from({ length: 25 }, (_, index) => ({ origin: `${index}.yaml`, message: 'no' }))
  logProblems({ ...report, problems })
  assert.equal(lines.length, 11)
  assert.equal(lines.at(-1), 'warn omit problems 15 tollway status shows all')
})
