import { boolean, integer, settingsTable, text } from '@tollway/chassis/settings.ts'

/** What the process reports to the operator of its feed about decisions. */
export const reportSettings = settingsTable({
  reportDecisions: {
    name: 'DECISION_REPORTS',
    kind: boolean,
    fallback: 'true',
    help: 'Report totals to the operator of the feed every 5 s, and answer its requests.',
  },
  decisionTap: {
    name: 'DECISION_TAP',
    kind: boolean,
    fallback: 'false',
    help: 'Allow the operator to read sampled decisions with their descriptors, at most 50/s for each pod.',
  },
  decisionRecordingBytes: {
    name: 'DECISION_RECORDING_BYTES',
    kind: integer(0, 2 ** 30),
    fallback: `${16 * 1024 * 1024}`,
    help: 'The memory for the latest calls, against which a changed configuration can be tried; 0 for none.',
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
    help: 'A secret that the hashes of values depend on; the same for all processes.',
    secret: true,
  },
})
