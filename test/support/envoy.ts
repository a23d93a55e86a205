import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePorts } from './free-ports.ts'
import { startProgram } from './program.ts'
import { temporaryFolder } from './temporary-folder.ts'
import { type Cleanup, root } from './tollway.ts'
import { waitFor } from './wait-for.ts'

export interface Envoy {
  /** The port for calls of the application behind the sidecar. */
  readonly ingressPort: number
  readonly adminPort: number
  /** Ends it at once, with SIGKILL. */
  kill(): Promise<void>
}

export interface EnvoyOptions {
  /** The number of threads, each of which has separate connections. */
  readonly concurrency: number
  /** A configuration of the examples with the ports of the sidecar; `envoy/envoy.yaml` if left out. */
  readonly example?: string
  /** Changes the configuration, which has the test's ports by then. */
  readonly change?: (config: string) => string
}

/**
 * Starts an Envoy of the examples on separate ports, until the test ends; it calls the service on `servicePort`.
 */
export async function startEnvoy(t: Cleanup, servicePort: number, options: EnvoyOptions): Promise<Envoy> {
  const { concurrency, example = 'envoy/envoy.yaml', change = config => config } = options
  const [ingress = 0, admin = 0, app = 0] = await freePorts(3)
  const config = readFileSync(join(root, 'examples', example), 'utf8')
    .replaceAll('port_value: 10001', `port_value: ${app}`)
    .replace('port_value: 10000', `port_value: ${ingress}`)
    .replace('port_value: 9901', `port_value: ${admin}`)
    .replace('port_value: 8081', `port_value: ${servicePort}`)
  const kill = await runEnvoy(t, change(config), { adminPort: admin, concurrency })
  return { ingressPort: ingress, adminPort: admin, kill }
}

/**
 * Starts Envoy with this configuration in YAML or JSON, until the test ends. Resolves when it accepts calls, with a
 * function that ends it at once.
 */
export async function runEnvoy(
  t: Cleanup,
  config: string,
  { adminPort, concurrency }: Pick<Envoy, 'adminPort'> & Pick<EnvoyOptions, 'concurrency'>,
): Promise<() => Promise<void>> {
  const file = join(temporaryFolder('envoy'), 'envoy.yaml')
  writeFileSync(file, config)
  const args = ['-c', file, '--use-dynamic-base-id', '-l', 'error', '--concurrency', `${concurrency}`]
  const envoy = startProgram('envoy', args)
  const kill = async () => {
    await envoy.end('SIGKILL')
  }
  t.after(kill)
  await waitFor('Envoy to accept calls', async () => {
    if (envoy.process.exitCode !== null) throw new Error(envoy.output())
    return (await fetch(`http://127.0.0.1:${adminPort}/ready`)).ok
  })
  return kill
}
