import { readFileSync } from 'node:fs'
import { LeaseElector } from '../controller/lease-elector.ts'
import { createKubeClient } from '../environments/kubernetes/api/client.ts'
import { leaseAccess } from '../environments/kubernetes/leadership.ts'
import { accessThrough } from '../environments/kubernetes/testing/service-account.ts'

/** A process that acts while it leads: it prints `act MS`, where MS is the machine's monotonic clock. */
const settings = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8'))
const { url, token, namespace, name, identity, timing } = settings
const client = createKubeClient(accessThrough(url, { namespace, token }), { random: Math.random })
const say = (text: string) => process.stdout.write(`${text}\n`)

const elector = new LeaseElector({
  lease: leaseAccess(client, { namespace, name }),
  identity,
  timing,
  onStarted: () => say('started'),
  onStopped() {
    say('stopped')
  },
  onError: error => say(`error ${error}`),
  random: Math.random,
})
elector.start()
say('waits')
setInterval(() => {
  // The time is read first, so that a pause between these two lines never makes the printed time too late.
  const nowMs = Number(process.hrtime.bigint()) / 1e6
  if (elector.isLeader()) say(`act ${nowMs.toFixed(3)}`)
}, 10)
