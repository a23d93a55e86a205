import { fileURLToPath } from 'node:url'
import { dump, load } from 'js-yaml'
import { startEnvoy } from '../support/envoy.ts'
import { freePorts } from '../support/free-ports.ts'
import { startProgram } from '../support/program.ts'
import type { Cleanup } from '../support/tollway.ts'

/** An Envoy with one port whose requests the service decides, and one whose requests a control decides. */
export interface ControlledEnvoy {
  readonly serviceUrl: string
  readonly controlUrl: string
  /** Resolves with the numbers of decisions that Envoy did not get in time, for any reason. */
  failures(): Promise<{ readonly service: number; readonly control: number }>
}

interface Bootstrap {
  readonly static_resources: {
    readonly listeners: { readonly name: string }[]
    readonly clusters: object[]
  }
}

const controlProgram = fileURLToPath(new URL('control-service.ts', import.meta.url))
const controlled = 'controlled-'

/**
 * Starts the examples' Envoy, which waits this long for a decision. The control is a process of Node that
 * counts nothing: a late answer of it shows that the machine is late.
 */
export async function startControlledEnvoy(
  t: Cleanup,
  servicePort: number,
  timeoutMs: number,
): Promise<ControlledEnvoy> {
  const [controlPort = 0, controlIngress = 0] = await freePorts(2)
  const control = startProgram(process.execPath, [controlProgram, `${controlPort}`])
  t.after(async () => {
    await control.end('SIGKILL')
  })
  await control.said('serving')
  const change = (config: string) => {
    const bootstrap = load(config.replace('timeout: 0.020s', `timeout: ${timeoutMs / 1000}s`)) as Bootstrap
    const { listeners, clusters } = bootstrap.static_resources
    const ingress = listeners.filter(({ name }) => name === 'ingress')
    const [, ingressPort] = /"port_value":(\d+)/.exec(JSON.stringify(ingress)) ?? []
    const copy = <T>(items: readonly T[]): T[] =>
      JSON.parse(
        JSON.stringify(items)
          .replaceAll(/"(name|cluster|cluster_name)":"(app|ingress|ratelimit)"/g, `"$1":"${controlled}$2"`)
          .replaceAll(`"port_value":${ingressPort}`, `"port_value":${controlIngress}`)
          .replaceAll(`"port_value":${servicePort}`, `"port_value":${controlPort}`),
      ) as T[]
    listeners.push(...copy(ingress))
    clusters.push(...copy(clusters))
    return dump(bootstrap)
  }
  const { ingressPort, adminPort } = await startEnvoy(t, servicePort, { concurrency: 1, change })
  const failuresOf = async (cluster: string) => {
    const url = `http://127.0.0.1:${adminPort}/stats?filter=^cluster.${cluster}.ratelimit.error$`
    const [, count = '0'] = /: (\d+)$/m.exec(await (await fetch(url)).text()) ?? []
    return Number(count)
  }
  return {
    serviceUrl: `http://127.0.0.1:${ingressPort}/`,
    controlUrl: `http://127.0.0.1:${controlIngress}/`,
    failures: async () => ({
      service: await failuresOf('app'),
      control: await failuresOf(`${controlled}app`),
    }),
  }
}
