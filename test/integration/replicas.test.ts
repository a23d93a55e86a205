import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { requireProgram } from '../support/require-server.ts'
import { manifest, startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

/** Returns the id of the process whose environment has this uid. */
function findPid(uid: string): number {
  const pids = readdirSync('/proc').filter(name => /^\d+$/.test(name))
  const found = pids.find(pid => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`uid:${uid}`)
    } catch {
      return false
    }
  })
  assert.ok(found, `no process has the uid ${uid}`)
  return Number(found)
}

test('three processes on one Redis admit exactly the limit', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const limit = 200
  const tollway = await startTollway(t, { 'a.yaml': manifest('a', 'a', { user: `${limit}/day` }) }, [
    '--replicas',
    '3',
    '--env',
    'BACKEND_DEADLINE=5s',
  ])
  await tollway.ready()
  await waitFor('all processes to be counted', () => tollway.status().resources[0]?.enforced === '3/3')
  const codes = await Promise.all(Array.from({ length: 3 * limit }, () => tollway.ask('a', 'user', 'x')))
  assert.equal(codes.filter(code => code === 200).length, limit)
  assert.equal(codes.filter(code => code === 429).length, 2 * limit)
})

test('a process that is killed under load is restarted, and its counters continue', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const limit = 300
  const tollway = await startTollway(t, { 'a.yaml': manifest('a', 'a', { user: `${limit}/day` }) }, [
    '--replicas',
    '2',
    '--env',
    'BACKEND_DEADLINE=5s',
  ])
  const before = await tollway.ready()
  const victim = before.replicas[1]
  assert.ok(victim)
  let admitted = 0
  let failed = 0
  let loading = true
  const callers = 8
  const load = Array.from({ length: callers }, async () => {
    while (loading) {
      try {
        if ((await tollway.ask('a', 'user', 'x')) === 200) admitted += 1
      } catch {
        failed += 1
      }
    }
  })
  await waitFor('the first admissions', () => admitted > 20)
  process.kill(findPid(victim.uid), 'SIGKILL')
  await waitFor('the new process to enforce', () => {
    const { replicas, resources } = tollway.status()
    return replicas[1]?.uid !== victim.uid && resources[0]?.enforced === '2/2'
  })
  await waitFor('the limit to be used up', () => admitted + failed >= limit)
  loading = false
  await Promise.all(load)
  assert.ok(admitted <= limit, `${admitted} of ${limit} were admitted`)
  // A call that was lost with the process may have been counted, or not; no other one is lost.
  assert.ok(limit - admitted <= failed, `${limit - admitted} admissions are missing, ${failed} calls failed`)
  assert.ok(failed <= 2 * callers, `${failed} calls failed, with ${callers} at a time`)
})

test('more than one process without Redis is rejected, with a fix', async t => {
  const path = process.env['PATH']
  process.env['PATH'] = '/nonexistent'
  try {
    await assert.rejects(startTollway(t, {}, ['--replicas', '2']), error => {
      assert.match((error as Error).message, /redis-server/)
      assert.match((error as Error).message, /--redis-url/)
      return true
    })
  } finally {
    process.env['PATH'] = path
  }
})
