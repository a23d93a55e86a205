import assert from 'node:assert/strict'
import { waitFor } from '../../../../test/support/wait-for.ts'
import type { RequestEnd, StreamLog } from '../stream-log.ts'
import { createOpening, createResumable, createResumption, toBytes } from './log-under-test.ts'
import type { ContractTest, OpenedLogs } from './stream-log.contract.ts'

const success: RequestEnd = { how: 'completed' }
const lost: RequestEnd = { how: 'lost', status: { code: 'ERROR', message: 'the producer is gone' } }
const graceMs = 300

/** Returns the ends that the logs report, such as `memory: r1 completed`, as a list that grows. */
export function reportedBy(logs: Readonly<Record<string, StreamLog>>): readonly string[] {
  const reported: string[] = []
  for (const [name, log] of Object.entries(logs)) {
    log.onEnd(({ ids }, { how }, progress) => {
      const counted = progress === undefined ? '' : ` ${JSON.stringify(progress)}`
      reported.push(`${name}: ${ids.requestId} ${how}${counted}`)
    })
  }
  return reported
}

/** Collects the reports of both logs. In memory both are the same log, whose name is `producers`. */
const collectReports = ({ producers, consumers }: OpenedLogs) =>
  reportedBy(producers === consumers ? { producers } : { producers, consumers })

const allEnded = ({ producers, consumers }: OpenedLogs, count: number) =>
  waitFor(`${count} ends`, () =>
    [producers, consumers].every(log => log.list().filter(({ ended }) => ended).length === count),
  )

/** The tests of the reports of ends. */
export const endReportTests: Record<string, ContractTest> = {
  'an end is reported once, by the process that has given it': async logs => {
    const { producers, consumers } = logs
    const reports = collectReports(logs)
    const interrupter = producers === consumers ? 'producers' : 'consumers'
    const one = await producers.open(createResumable('r1', graceMs))
    one.append(toBytes('a'), { messages: 2 })
    await one.end(success)
    await one.end(lost)
    const two = await producers.open(createOpening('r2'))
    await waitFor('the request', () => consumers.list().find(({ ids }) => ids.requestId === 'r2'))
    await Promise.all([consumers.interrupt('s', 'r2'), consumers.interrupt('s', 'r2')])
    await waitFor('the producer to know', () => two.endedBy)
    await two.end(success)
    const three = await producers.open(createResumable('r3', graceMs))
    three.suspend(lost)
    await allEnded(logs, 3)
    const four = await producers.open(createResumable('r4', graceMs))
    four.suspend(lost)
    const { writer } = await consumers.resume(createResumption(four.request))
    await writer.end(success)
    await allEnded(logs, 4)
    await producers.open(createOpening('r5'))
    await producers.close()
    const expected = [
      'producers: r1 completed {"messages":2}',
      `${interrupter}: r2 interrupted${producers === consumers ? ' {}' : ''}`,
      'producers: r3 lost {"messages":1}',
      `${interrupter}: r4 completed {"messages":1}`,
      'producers: r5 lost {}',
    ]
    assert.deepEqual(reports, expected)
  },
}
