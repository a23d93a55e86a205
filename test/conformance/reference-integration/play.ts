import { spawn, spawnSync } from 'node:child_process'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { programs } from '../../support/programs.ts'
import { root } from '../../support/tollway.ts'
import { builtTests, moduleCopy } from './paths.ts'
import { type ReferenceServers, startReferenceServers } from './servers.ts'

const compileCache = process.env['NODE_COMPILE_CACHE'] ?? join(root, 'out/compile-cache')

/** The result of one of the reference's tests. Groups and the tests in them are both listed. */
export interface Verdict {
  /** Such as `TestBasicAuthConfig/WithPerSecondRedisAuth`. */
  readonly name: string
  readonly result: 'PASS' | 'FAIL' | 'SKIP'
  readonly seconds: number
}

export interface Played {
  readonly verdicts: readonly Verdict[]
  /** The whole output of the tests. */
  readonly output: string
}

/** The reference's integration tests against the service, with the servers that they need. */
export interface ReferenceTests {
  /** @param run a pattern as for `go test -run`; all tests when it is left out */
  play(run?: string): Promise<Played>
  stop(): Promise<void>
}

/** @param folder an empty folder that only this test uses */
export async function openReferenceTests(folder: string): Promise<ReferenceTests> {
  const integration = join(moduleCopy, 'test/integration')
  // A test writes into the configuration.
  cpSync(join(integration, 'runtime'), join(folder, 'runtime'), { recursive: true })
  // The tests wait 10 s for the service, and the first compilation can take that long on a busy machine.
  spawnSync(process.execPath, [programs.rateLimit], {
    env: { NODE_COMPILE_CACHE: compileCache, PORT: 'none' },
  })
  const servers = await startReferenceServers(folder, join(integration, 'conf'))
  return {
    play: run => play(folder, servers, run),
    stop: servers.stop,
  }
}

async function play(folder: string, { certificate }: ReferenceServers, run = '.'): Promise<Played> {
  const env = {
    ...process.env,
    PROJECT_DIR: folder,
    TOLLWAY_NODE: process.execPath,
    TOLLWAY_RATELIMIT: programs.rateLimit,
    NODE_COMPILE_CACHE: compileCache,
    // The reference's Makefile adds the certificate to those of the system.
    NODE_EXTRA_CA_CERTS: certificate.certFile,
  }
  const args = ['-test.v', `-test.run=${run}`, '-test.timeout=10m']
  const child = spawn(builtTests, args, { cwd: folder, env, detached: true })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data: Buffer) => {
      output += data.toString()
    })
  }
  const end = () => endGroupOf(child.pid)
  process.once('exit', end)
  const closed = new Promise(resolve => child.once('close', resolve))
  await new Promise(resolve => child.once('exit', resolve))
  process.removeListener('exit', end)
  end()
  await closed
  const verdicts = [...output.matchAll(/^ *--- (PASS|FAIL|SKIP): (\S+) \(([\d.]+)s\)$/gm)].map(
    ([, result, name = '', seconds]) => ({
      name,
      result: result as Verdict['result'],
      seconds: Number(seconds),
    }),
  )
  return { verdicts, output }
}

/** A test that panics leaves its child processes, which would keep the ports of the next tests. */
function endGroupOf(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
