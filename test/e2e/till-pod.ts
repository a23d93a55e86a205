import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../support/tollway.ts'
import { apply, kubectl } from './cluster.ts'
import { startRelay } from './relay.ts'
import type { Rush, Sale } from './till.ts'

/** The programs of a merchant in a pod, see `till.ts`. */
export interface Till {
  sell(): Promise<Sale>
  /** Starts to sell; resolves with a function that ends it. */
  rush(): () => Promise<Rush>
}

const sources = {
  till: 'test/e2e/till.ts',
  'relay-client': 'test/e2e/relay-client.ts',
  'retrying-client': 'test/payments/retrying-client.ts',
} as const
const maxOutputBytes = 1024 * 1024

/** Creates a pod whose environment is that Secret, and resolves when it runs. */
export async function startTill(namespace: string, secretName: string): Promise<Till> {
  const name = 'till'
  const data = Object.fromEntries(
    Object.entries(sources).map(([entry, path]) => [`${entry}.ts`, readFileSync(join(root, path), 'utf8')]),
  )
  await apply({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace },
    data: { ...data, 'package.json': '{"type": "module"}' },
  })
  await apply(podOf({ name, namespace, secretName, relay: await startRelay(namespace) }))
  await kubectl('-n', namespace, 'wait', '--for=condition=Ready', `pod/${name}`, '--timeout=60s')
  const run = (interactive: readonly string[], command: string) =>
    promisify(execFile)(
      'kubectl',
      ['-n', namespace, 'exec', ...interactive, name, '--', 'node', '/shop/test/e2e/till.ts', command],
      { maxBuffer: maxOutputBytes },
    )
  return {
    async sell() {
      return JSON.parse((await run([], 'sell')).stdout) as Sale
    },
    rush() {
      const running = run(['-i'], 'rush')
      running.catch(() => {})
      return async () => {
        running.child.stdin?.end()
        return JSON.parse((await running).stdout) as Rush
      }
    },
  }
}

function podOf({
  name,
  namespace,
  secretName,
  relay,
}: Readonly<Record<'name' | 'namespace' | 'secretName' | 'relay', string>>) {
  const items = [
    { key: 'package.json', path: 'package.json' },
    ...Object.entries(sources).map(([entry, path]) => ({ key: `${entry}.ts`, path })),
  ]
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace },
    spec: {
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 0,
      containers: [
        {
          name,
          // The image only needs Node.
          image: 'tollway/operator:dev',
          imagePullPolicy: 'Never',
          command: ['node', '--eval', 'setInterval(() => {}, 1_000_000)'],
          env: [{ name: 'RELAY', value: relay }],
          envFrom: [{ secretRef: { name: secretName } }],
          volumeMounts: [{ name: 'shop', mountPath: '/shop' }],
        },
      ],
      volumes: [{ name: 'shop', configMap: { name, items } }],
    },
  }
}
