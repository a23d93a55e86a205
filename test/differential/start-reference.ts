import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { freePorts } from '../support/free-ports.ts'
import { type GoProgram, goProgramPath, missingGoProgram } from '../support/go-program.ts'
import { type Program, startProgram } from '../support/program.ts'
import type { Cleanup } from '../support/tollway.ts'
import { startDeadlineMs, waitFor } from '../support/wait-for.ts'

const reference: GoProgram = { name: 'ratelimit-reference', folder: 'test/differential/reference' }

/** Returns the reason to skip tests that need the reference; false when it is available. */
export const missingReference = () => missingGoProgram(reference)

/** @throws Error that explains how to build it */
export const referencePath = () => goProgramPath(reference)

/** The reference service in a separate process, on separate ports. */
export interface ReferenceProcess {
  readonly program: Program
  readonly grpcPort: number
  readonly httpPort: number
  readonly debugPort: number
}

/** Resolves when it is healthy: it then has its configuration and its Redis. */
export async function startReference(
  t: Cleanup,
  env: Readonly<Record<string, string>>,
): Promise<ReferenceProcess> {
  const [grpcPort = 0, httpPort = 0, debugPort = 0] = await freePorts(3)
  const ports = { GRPC_PORT: `${grpcPort}`, PORT: `${httpPort}`, DEBUG_PORT: `${debugPort}` }
  const hosts = { GRPC_HOST: '127.0.0.1', HOST: '127.0.0.1', DEBUG_HOST: '127.0.0.1' }
  const program = startProgram(referencePath(), [], { env: { ...ports, ...hosts, ...env } })
  t.after(async () => {
    await program.end('SIGKILL')
  })
  await waitFor(
    'the reference to be healthy',
    async () => {
      if (program.process.exitCode !== null) return true
      const response = await fetch(`http://127.0.0.1:${httpPort}/healthcheck`)
      await response.arrayBuffer()
      return response.status === 200
    },
    startDeadlineMs,
  )
  if (program.process.exitCode !== null) throw new Error(`the reference ended: ${program.output()}`)
  return { program, grpcPort, httpPort, debugPort }
}

export interface ConfigFile {
  readonly name: string
  readonly text: string | Uint8Array
}

/**
 * The reference's result for a configuration: `refused` is its message, `crashed` a panic without one, and
 * `rules` the list of its debug page, in any order.
 */
export interface Verdict {
  readonly rules?: string
  readonly refused?: string
  readonly crashed?: string
  readonly tookMs: number
}

/** Starts the reference's loader, which checks configurations one at a time. */
export function startJudge(t: Cleanup): (files: readonly ConfigFile[], merge?: boolean) => Promise<Verdict> {
  const child = spawn(referencePath(), ['judge'], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(async () => {
    child.kill('SIGKILL')
  })
  const waiting: ((line: string) => void)[] = []
  createInterface({ input: child.stdout }).on('line', line => waiting.shift()?.(line))
  child.on('exit', () => {
    for (const answer of waiting.splice(0)) answer('{"crashed":"the whole process ended","tookMs":0}')
  })
  return (files, merge = false) => {
    const asked = files.map(({ name, text }) => ({ name, text: Buffer.from(text).toString('base64') }))
    child.stdin.write(`${JSON.stringify({ files: asked, merge })}\n`)
    return new Promise(resolve => waiting.push(line => resolve(JSON.parse(line) as Verdict)))
  }
}
