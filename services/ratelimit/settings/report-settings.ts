import { boolean, integer, settingsTable, text } from '@tollway/chassis/settings.ts'

/** The reports of decisions to the operator. */
export const reportSettings = settingsTable({
  reportDecisions: {
    name: 'DECISION_REPORTS',
    kind: boolean,
    fallback: 'true',
    help: 'Report totals of decisions to the operator of the feed every 5 s, and answer its queries.',
  },
  decisionTap: {
    name: 'DECISION_TAP',
    kind: boolean,
    fallback: 'false',
    help:
      'Allow the operator to read a sample of decisions with their descriptors, at most 50/s for ' +
      'each pod.',
  },
  decisionRecordingBytes: {
    name: 'DECISION_RECORDING_BYTES',
    kind: integer(0, 2 ** 30),
    fallback: `${16 * 1024 * 1024}`,
    help:
      'The memory in bytes for the latest calls, which a what-if replays, of all workers together. ' +
      '0 disables the recording.',
  },
  hashReportedKeys: {
    name: 'DECISION_KEYS_HASHED',
    kind: boolean,
    fallback: 'false',
    help: 'Report hashes instead of the values of descriptors, which may be personal data.',
  },
  reportedKeysSalt: {
    name: 'DECISION_KEYS_SALT',
    kind: text,
    fallback: '',
    help: 'The secret salt of the hashes of values. All processes need the same one.',
    secret: true,
  },
})
