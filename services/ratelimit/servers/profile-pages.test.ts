import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { createGuardedServer } from '@tollway/chassis/net/guarded-server.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { createStats } from '../stats/stats.ts'
import { debugListener } from './debug.ts'
import { listen } from './testing/open-limiter.ts'

function start(t: TestContext): Promise<string> {
  return listen(
    t,
    createGuardedServer(
      debugListener({ stats: createStats(), rules: () => '', clock: systemClock, probes: () => undefined }),
    ),
  )
}

/** Work that must appear in a profile. */
function burnTime(forMs: number): number {
  const endMs = performance.now() + forMs
  let sum = 0
  while (performance.now() < endMs) sum += Math.sqrt(sum + 1)
  return sum
}

/** Returns the output of `go tool pprof -top` for a profile; undefined, with a message, without Go. */
function goTop(profile: Buffer): string | undefined {
  const folder = temporaryFolder('pprof')
  writeFileSync(join(folder, 'profile.pb.gz'), profile)
  try {
    return execFileSync('go', ['tool', 'pprof', '-top', join(folder, 'profile.pb.gz')], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      env: { ...process.env, PPROF_TMPDIR: folder },
    })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    process.stderr.write('SKIPPED: go is not on the PATH, so the profile is not opened\n')
    return undefined
  }
}

/** Takes a profile while this process is busy. */
async function profileOf(url: string, busy: () => unknown): Promise<Response> {
  const answer = fetch(url)
  const ticker = setInterval(busy, 20)
  try {
    return await answer
  } finally {
    clearInterval(ticker)
  }
}

test('go tool pprof opens a CPU profile, which has the busy function', async t => {
  const address = await start(t)
  const answer = await profileOf(`${address}/debug/pprof/profile?seconds=0.5`, () => burnTime(15))
  assert.equal(answer.status, 200)
  const top = goTop(Buffer.from(await answer.arrayBuffer()))
  if (top !== undefined) assert.match(top, /Type: cpu[\s\S]*burnTime/)
})

test('a CPU profile for DevTools', async t => {
  const address = await start(t)
  const url = `${address}/debug/pprof/profile?seconds=0.5&format=devtools`
  const answer = await profileOf(url, () => burnTime(15))
  const { nodes } = (await answer.json()) as { nodes: { callFrame: { url: string } }[] }
  // Code that was compiled before the profile began may have the name of the function into which it was
  // inlined.
  assert.ok(nodes.some(({ callFrame }) => callFrame.url === import.meta.url))
})

test('a heap profile has the functions that allocated the memory in use', async t => {
  const address = await start(t)
  const kept: unknown[] = []
  const takeMemory = () => kept.push(Array.from({ length: 50_000 }, (_, index) => ({ index })))
  const answer = await profileOf(`${address}/debug/pprof/heap?seconds=0.3`, takeMemory)
  assert.ok(kept.length > 0)
  const top = goTop(Buffer.from(await answer.arrayBuffer()))
  if (top !== undefined) assert.match(top, /Type: inuse_space[\s\S]*takeMemory/)
})

test('a heap snapshot is complete', async t => {
  const address = await start(t)
  const answer = await fetch(`${address}/debug/pprof/heapsnapshot`)
  const { snapshot } = JSON.parse(await answer.text()) as { snapshot: { node_count: number } }
  assert.ok(snapshot.node_count > 1_000)
})

test('only one profile runs at a time, and its duration is limited', async t => {
  const address = await start(t)
  const caller = new AbortController()
  const first = fetch(`${address}/debug/pprof/profile?seconds=300`, { signal: caller.signal })
  const rejected = assert.rejects(first, { name: 'AbortError' })
  let second = await fetch(`${address}/debug/pprof/heap?seconds=0.01`)
  while (second.status === 200) second = await fetch(`${address}/debug/pprof/heap?seconds=0.01`)
  assert.equal(second.status, 409)
  caller.abort()
  await rejected
  // The next profile can start after the first caller has disconnected.
  while (second.status === 409) second = await fetch(`${address}/debug/pprof/heap?seconds=0.01`)
  assert.equal(second.status, 200)
  for (const seconds of ['0', '-1', 'x', '301', '']) {
    assert.equal((await fetch(`${address}/debug/pprof/profile?seconds=${seconds}`)).status, 400, seconds)
  }
})
