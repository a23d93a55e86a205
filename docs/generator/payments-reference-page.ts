import { fieldErrorCodes, rejections } from '@tollway/payments/domain/rejections.ts'
import {
  processingError,
  processingErrorCodes,
} from '@tollway/payments/domain/transaction/processing-errors.ts'
import { eventMeanings } from '@tollway/payments/operations/events.ts'
import { testCards } from '@tollway/payments/processor/test-cards.ts'

const code = (text: string | number) => `\`${text}\``
const row = (...cells: readonly string[]) => `| ${cells.join(' | ')} |`

/** Returns the page of test cards, events and errors as Markdown, without the notice that it is generated. */
export function paymentsReferencePage(): string {
  const cards = testCards.map(card => {
    const declines = card.declines ?? card.declinesRecurring
    return row(code(card.number), card.means, declines === undefined ? '' : `${declines}`)
  })
  const events = Object.entries(eventMeanings).map(([type, { means, data }]) =>
    row(code(type), means, data.map(code).join(', ')),
  )
  const errors = Object.entries(rejections).map(([name, { status, message }]) =>
    row(`${status}`, code(name), message),
  )
  const declines = processingErrorCodes.map(number => {
    const { message, merchant, retry } = processingError(number)
    return row(`${number}`, message, merchant, retry ? 'yes' : 'no')
  })
  return `# Payments: test cards, events and errors

[tasks/accept-a-payment.md](../tasks/accept-a-payment.md) shows how to use them. The service describes its
endpoints and fields at \`/openapi.json\`.

## Test cards

A test card has any expiry date that is not in the past, and any verification code of three digits. The test
processor approves every other number with a valid check digit. Never enter the number of a real card.

| Number | Outcome | Processing error |
|---|---|---|
${cards.join('\n')}

## Events

The body of an event is \`{id, type, created, merchantId, data}\`. Each field of \`data\` is a record in the
form of the API; \`change\` is the new entry of the trail.

| Type | Meaning | Fields of \`data\` |
|---|---|---|
${events.join('\n')}

## Errors

The body of an error is \`{code, message}\`, and the header \`x-request-id\` names the request in the
service's log. The exception is \`invalid_request\`: its body is a list with one element for each wrong field,
\`[{field, code, message}]\`. The message names the value that was found and the values that are allowed.

| Status | Code | Message |
|---|---|---|
${errors.join('\n')}

Codes of a field: ${fieldErrorCodes.map(code).join(', ')}.

## Processing errors

A declined payment is a transaction with \`successful: false\` and an \`error\` of
\`{code, message, client, merchant, retry}\`. \`POST /merchants/{id}/transactions\` answers 400 with the
code \`processing_error\` and the same object as \`error\`. \`client\` is a text for the payer, and
\`merchant\` a text for the merchant.

| Code | Message | Meaning | The same payment can succeed later |
|---|---|---|---|
${declines.join('\n')}
`
}
