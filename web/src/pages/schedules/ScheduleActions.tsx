import { useNavigate } from '@tanstack/react-router'
import { type Api, client, ok } from '@/api/client'
import { useAct, useMayChange } from '@/app/acting'
import { Confirm } from '@/parts/Confirm'

type Schedule = Api<'ScheduleView'>
const TOUCHES = ['schedules', 'campaigns', 'overview'] as const

/** Run now, pause or resume; and on its own page, remove. */
export function ScheduleActions({ schedule, whole = false }: { schedule: Schedule; whole?: boolean }) {
  const params = { path: { schedule: schedule.id } }
  const run = useAct({
    ask: () => ok(client.POST('/api/v1/schedules/{schedule}/run', { params })),
    done: (firing) =>
      firing.campaign
        ? `${schedule.name} runs now: campaign ${firing.campaign}`
        : `${schedule.name} was ${firing.outcome}: ${firing.reason}`,
    failed: `${schedule.name} does not run`,
    touches: TOUCHES,
  })
  const rest = useAct({
    ask: () => ok(client.POST('/api/v1/schedules/{schedule}/pause', { params })),
    done: () => `${schedule.name} rests`,
    failed: 'It could not be paused',
    touches: TOUCHES,
  })
  const goOn = useAct({
    ask: () => ok(client.POST('/api/v1/schedules/{schedule}/resume', { params })),
    done: () => `${schedule.name} is resumed`,
    failed: 'It could not be resumed',
    touches: TOUCHES,
  })
  if (!useMayChange()) return null
  const isActive = schedule.state === 'active'
  const turn = isActive ? rest : goOn
  return (
    <div className={whole ? 'actions' : 'in-row'}>
      <button type="button" className="button" disabled={run.isPending} onClick={() => run.mutate()}>
        Run now
      </button>
      <button type="button" className="button" disabled={turn.isPending} onClick={() => turn.mutate()}>
        {isActive ? 'Pause' : 'Resume'}
      </button>
      {whole && <Remove schedule={schedule} />}
    </div>
  )
}

function Remove({ schedule }: { schedule: Schedule }) {
  const navigate = useNavigate()
  const remove = useAct({
    ask: () => ok(client.DELETE('/api/v1/schedules/{schedule}', { params: { path: { schedule: schedule.id } } })),
    done: () => `${schedule.name} runs by itself no more`,
    failed: 'The schedule was not removed',
    touches: ['schedules', 'overview'],
    after: () => void navigate({ to: '/schedules' }),
  })
  return (
    <Confirm
      word="Remove"
      title={`Remove the schedule of ${schedule.name}?`}
      danger
      disabled={remove.isPending}
      onConfirm={() => remove.mutate()}
    >
      <p>
        It no longer runs by itself, and the list of its due times is deleted. The campaigns that it submitted stay.
      </p>
    </Confirm>
  )
}
