import { eventText, maxHeaderBytes } from './answers.ts'
import { type ApiEndpoint, apiEndpoints } from './endpoints.ts'
import { errorAnswerExample as errorExample } from './examples.ts'
import { errorAnswer } from './shapes.ts'

export const apiPath = '/api/v1'

export function openApiDocument() {
  const paths = Object.groupBy<string, ApiEndpoint>(apiEndpoints, ({ path }) => `${apiPath}${path}`)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Tollway operator',
      version: '1',
      description:
        'Counters and live decisions of the rate limit service, and the state of all resources. In a cluster a ' +
        'call needs a bearer token of the cluster. A POST needs the content type application/json. The address and ' +
        `the headers of a call have at most ${maxHeaderBytes} bytes; more are answered by 431.`,
    },
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: { Error: errorAnswer },
    },
    security: [{ bearer: [] }, {}],
    paths: Object.fromEntries(
      Object.entries(paths).map(([path, list = []]) => [
        path,
        Object.fromEntries(list.map(endpoint => [endpoint.method.toLowerCase(), operation(endpoint)])),
      ]),
    ),
  }
}

function operation({ id, summary, parameters, body, answer, events, example, right }: ApiEndpoint) {
  const type = events === undefined ? 'application/json' : 'text/event-stream'
  const streamed = Object.keys(events ?? {}).map(name => `\`${name}\``)
  return {
    operationId: id,
    summary,
    ...(right && { description: `Right in a cluster: \`${right.verb}\` on \`${right.resource}\`.` }),
    parameters: parameters.map(({ name, in: place, required, isList, description, schema }) => ({
      name,
      in: place,
      required,
      description,
      schema,
      ...(isList && { style: 'form', explode: true }),
    })),
    ...(body && {
      requestBody: {
        required: true,
        description: `At most ${body.maxBytes} bytes; a larger body is answered by 413.`,
        content: { 'application/json': { schema: body.schema, example: body.example } },
      },
    }),
    responses: {
      200: {
        description: streamed.length === 0 ? 'The answer.' : `Events ${streamed.join(', ')} and \`end\`.`,
        content: {
          [type]:
            events === undefined
              ? { schema: answer, example }
              : { schema: { type: 'string' }, example: eventText(Object.keys(events)[0] ?? '', example) },
        },
        ...(events && { 'x-events': events }),
      },
      default: {
        description: 'An error.',
        content: {
          'application/json': { schema: { $ref: '#/components/schemas/Error' }, example: errorExample },
        },
      },
    },
  }
}
