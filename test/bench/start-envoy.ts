import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startProgram } from '../support/program.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { waitFor } from '../support/wait-for.ts'

/**
 * Starts Envoy with one worker thread and this configuration; `admin` is the port of its admin page. Resolves
 * when it accepts calls.
 */
export async function startEnvoy(config: unknown, admin: number): Promise<{ end(): Promise<void> }> {
  const place = temporaryFolder('bench-envoy')
  const file = join(place, 'envoy.json')
  writeFileSync(file, JSON.stringify(config))
  const args = ['-c', file, '--use-dynamic-base-id', '--concurrency', '1', '-l', 'warn']
  const program = startProgram('envoy', args)
  const end = async () => {
    await program.end('SIGKILL')
  }
  try {
    await waitFor('Envoy to accept calls', async () => {
      if (program.process.exitCode !== null) throw new Error(program.output())
      return (await fetch(`http://127.0.0.1:${admin}/ready`)).ok
    })
  } catch (error) {
    await end()
    throw error
  }
  return { end }
}
