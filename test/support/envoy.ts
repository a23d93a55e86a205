import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePorts } from './free-ports.ts'
import { startProgram } from './program.ts'
import { temporaryFolder } from './temporary-folder.ts'
import { type Cleanup, root } from './tollway.ts'
import { waitFor } from './wait-for.ts'

export interface Envoy {
  /** Where the application behind the sidecar is called. */
  readonly ingressPort: number
  readonly adminPort: number
}

export interface EnvoyOptions {
  /** Threads, each of which has connections of its own. */
  readonly concurrency: number
  /** Changes the configuration, whose ports are the test's own by then. */
  readonly change?: (config: string) => string
}

/** The examples' sidecar on ports of its own, until the test ends; it asks the service on that port. */
export async function startEnvoy(t: Cleanup, servicePort: number, options: EnvoyOptions): Promise<Envoy> {
  const { concurrency, change = config => config } = options
  const [ingress = 0, admin = 0, app = 0] = await freePorts(3)
  const place = temporaryFolder('envoy')
  const config = readFileSync(join(root, 'examples/envoy/envoy.yaml'), 'utf8')
    .replaceAll('port_value: 10001', `port_value: ${app}`)
    .replace('port_value: 10000', `port_value: ${ingress}`)
    .replace('port_value: 9901', `port_value: ${admin}`)
    .replace('port_value: 8081', `port_value: ${servicePort}`)
  writeFileSync(join(place, 'envoy.yaml'), change(config))
  const args = ['-c', join(place, 'envoy.yaml'), '--use-dynamic-base-id', '-l', 'error']
  const envoy = startProgram('envoy', [...args, '--concurrency', `${concurrency}`])
  t.after(async () => {
    await envoy.end('SIGKILL')
  })
  await waitFor('Envoy to take calls', async () => {
    if (envoy.process.exitCode !== null) throw new Error(envoy.output())
    return (await fetch(`http://127.0.0.1:${admin}/ready`)).ok
  })
  return { ingressPort: ingress, adminPort: admin }
}
