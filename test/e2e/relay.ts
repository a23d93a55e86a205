import { apply, kubectl, type Pod, read } from './cluster.ts'
import { relayPort } from './relay-client.ts'

/**
 * Answers each byte after as many round trips to the next program as the byte says; without a next program at
 * once.
 */
export const relayProgram = `
  const { connect, createServer } = require('node:net')
  const next = process.env.NEXT && connect(${relayPort}, process.env.NEXT)
  const waiting = []
  if (next) next.on('data', data => data.forEach(() => waiting.shift()()))
  const ask = () => new Promise(resolve => waiting.push(resolve) && next.write('.'))
  createServer(socket => {
    socket.on('error', () => {}).on('data', async data => {
      for (const roundTrips of data) {
        for (let left = next ? roundTrips : 0; left > 0; left--) await ask()
        socket.write('.')
      }
    })
  }).listen(${relayPort})
`

/**
 * Starts the control of tests that measure waits: a relay and its store, with the same requests as the pods of
 * the services. So a message passes as many processes as one of the broker and its Redis, or a call of the
 * payments service and its database. Resolves with the address of the relay.
 */
export async function startRelay(namespace: string): Promise<string> {
  const store = await startPod(namespace, 'relay-store')
  return startPod(namespace, 'relay', store)
}

async function startPod(namespace: string, name: string, next = ''): Promise<string> {
  await apply({
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
          command: ['node', '--eval', relayProgram],
          env: [{ name: 'NEXT', value: next }],
          resources: { requests: { cpu: '20m', memory: '96Mi' } },
          readinessProbe: { tcpSocket: { port: relayPort }, periodSeconds: 1 },
        },
      ],
    },
  })
  await kubectl('-n', namespace, 'wait', '--for=condition=Ready', `pod/${name}`, '--timeout=120s')
  return (await read<Pod>(namespace, `pods/${name}`))?.status.podIP ?? ''
}
