//! Loads the context of a reply; `prompt` renders it.

use std::collections::HashSet;

use crate::{
    agents::{
        derived::DELETED,
        files::{self, AuthoredFile, HEARTBEAT},
        policy,
        profiles::{self, Compaction, MemoryScopes, Resolved, shown_name},
        prompt_profiles::NONE,
        system::{self, System},
    },
    auth::guests,
    chat::{
        collaboration::{Turn, find_collaboration},
        forks::ForkContext,
        messages::{AuthorKind, MessageMetadata},
        search::{
            any::OldMatch,
            highlight,
            passages::find::{FileReader, PassageQuestion},
            shared::Readers,
        },
        variants::{VariantBase, find_base},
    },
    db::{Conn, DbError, Json, now},
    files::Attachment,
    ids::{AgentId, ApiKeyId, ChannelId, ForkId, MessageId, RunId, ThreadId, UserId, WorkspaceId},
    meaning::VectorAnswer,
    memory::{
        self,
        recall::{Recall, Recalled, RecalledEntry},
        user_file::{self, RequesterFile, UserFileVisibility},
    },
    realtime::hub::Conversation,
    replies::{
        adaptation::{note::Adapting, state::StateKey, switches},
        attached::{self, FileQuestion, ReadableFile},
        authored::{self, AuthoredTexts},
        compaction::{
            profile::{CompactionSettings, Strategy, StrategyPlace, mode_of},
            render::{Summarized, Summary},
            store,
            view::{self, View},
        },
        delegation::options::DelegateOptions,
        history::{self, Row, SeqRange, author, before, row_sql, said, told},
        knowledge,
        manifest::{LEFT_OUT_IDS_MAX, LeftOut, LeftOutReason},
        pictures::{self, PictureFile},
        preset::ReplyPreset,
        prompt::{
            About, Ask, AskedTurn, Author, BriefSender, Context, Delegated, ForkHeader, Gap,
            HISTORY_MAX, HistoryMessage, KnowledgePassage, Memory, Notes, OldMessage,
            PARTICIPANTS_MAX, Participant, Setting, fork_quote,
        },
        requester::{Requester, find_requester},
        skills,
        sources::{Because, Reasons, SourceName},
        workspace::{self, ContextPlace, WorkspaceContext},
    },
    schedules::Scheduled,
    tasks::{
        BriefContext, ChainStep, Task, TaskKind, TaskTarget,
        briefs::{self, StoredBrief},
        queue, steers,
    },
    tools::{handles, output::PassagePlace, taint::AuthoredText},
    workflows::run,
};

/// The loaded context and the messages that were left out.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub context: Context,
    /// Files of the trigger message whose text is in the context.
    pub readable: Vec<ReadableFile>,
    /// Pictures that the context can contain.
    pub pictures: Vec<PictureFile>,
    pub left_out: Vec<LeftOut>,
    pub memories: Recalled,
    pub strategy: Strategy,
    pub preset: ReplyPreset,
    /// Adaptation to the requester; `None` if the agent does not adapt.
    pub adapting: Option<Adapting>,
    pub view: View,
    /// The context contains the messages before this sequence number: that of the trigger message, or of the start of a chain link or
    /// a collaboration turn.
    pub trigger_seq: i64,
    /// API key that posted the trigger message.
    pub api_key: Option<ApiKeyId>,
    /// Same as in `ToolTask`.
    pub typed: String,
    pub authored: AuthoredTexts,
    /// Reasons why sources are missing.
    pub reasons: Reasons,
}

/// Conversation and requester of a reply.
#[derive(Debug, Clone, Copy)]
pub struct ReplyPlace {
    pub workspace: WorkspaceId,
    pub target: TaskTarget,
    pub requester: UserId,
}

impl ReplyPlace {
    /// Readers of the reply to a message.
    fn readers(&self, trigger: &Trigger) -> Readers {
        Readers {
            workspace: self.workspace,
            requester: self.requester,
            api_key: trigger.metadata.0.api_key_id,
            channel: self.target.channel,
            question: trigger.id,
        }
    }
}

/// The message that is replied to.
#[derive(sqlx::FromRow)]
struct Trigger {
    id: MessageId,
    seq: i64,
    content: String,
    attachments: Json<Vec<Attachment>>,
    metadata: Json<MessageMetadata>,
    is_by_requester: bool,
    /// Vector of the content.
    #[sqlx(skip)]
    asked: VectorAnswer,
}

/// Author of a prompt that replaces the trigger message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PromptWriter {
    Requester,
    /// The writer of HEARTBEAT.md or the owner of a workflow, who may be the requester.
    Other,
}

impl Trigger {
    /// Creates a trigger from a prompt that replaces the trigger message, including the API key that was used to write the prompt.
    async fn of_prompt(
        c: &mut Conn,
        task: &Task,
        content: String,
        writer: PromptWriter,
    ) -> Result<Self, DbError> {
        Ok(Self {
            is_by_requester: writer == PromptWriter::Requester,
            // No message has this ID.
            id: MessageId(task.id.0),
            seq: queue::before_seq(c, task.id).await?.unwrap_or(i64::MAX),
            content,
            attachments: Json(Vec::new()),
            metadata: Json(MessageMetadata {
                api_key_id: queue::key_of(c, task.id).await?,
                ..MessageMetadata::default()
            }),
            asked: VectorAnswer::Unused,
        })
    }

    /// A message that the requester has not posted yet.
    fn next(api_key: Option<ApiKeyId>) -> Self {
        Self {
            is_by_requester: true,
            id: MessageId::new(),
            seq: i64::MAX,
            content: String::new(),
            attachments: Json(Vec::new()),
            metadata: Json(MessageMetadata {
                api_key_id: api_key,
                ..MessageMetadata::default()
            }),
            asked: VectorAnswer::Unused,
        }
    }

    /// The question for which passages of files are found.
    fn question(&self) -> PassageQuestion<'_> {
        PassageQuestion::of(&self.content, &self.asked)
    }

    /// Returns the text if the requester wrote it in a browser; an empty text otherwise.
    fn typed(&self) -> String {
        if self.is_by_requester && self.metadata.0.api_key_id.is_none() {
            self.content.clone()
        } else {
            String::new()
        }
    }
}

/// Position of a reply among the others in its tree.
#[derive(Default)]
struct Order {
    step: Option<ChainStep>,
    turn: Option<AskedTurn>,
    /// True if the reply is a step of a run.
    in_run: bool,
    /// Messages that steer the reply. They follow the trigger message, so the history does not contain them.
    steers: Vec<MessageId>,
}

impl Order {
    /// Checks whether the reply reads the messages before its own start, not those before its trigger message.
    fn is_own(&self) -> bool {
        self.step.is_some() || self.turn.is_some() || self.in_run
    }
}

/// Returns the collaboration turn that a task performs, if any.
async fn asked_turn(
    c: &mut Conn,
    task: &Task,
    target: &TaskTarget,
) -> Result<Option<AskedTurn>, DbError> {
    let Some((turn, fork)) = Turn::of(task).zip(target.fork) else {
        return Ok(None);
    };
    let agents = find_collaboration(c, fork).await?.map(|found| found.agents);
    let mut others = Vec::new();
    for other in agents.into_iter().flatten() {
        if other != target.agent {
            others.push(profiles::shown_name(c, other).await?);
        }
    }
    Ok(Some(AskedTurn {
        turn,
        others,
        has_done: true,
    }))
}

/// The question for which passages of files are found in the context of a task; `None` if the context can have none.
pub async fn question_of(
    c: &mut Conn,
    task: &Task,
    agent: &Resolved,
    channel: ChannelId,
) -> Result<Option<String>, DbError> {
    let is_delegated = task.kind == TaskKind::Delegate;
    let reads_brief = || DelegateOptions::of(task).context == BriefContext::Brief;
    if is_delegated && (task.run_id.is_some() || reads_brief()) {
        return Ok(None);
    }
    let trigger: Option<(String, Json<Vec<Attachment>>)> = match task.trigger_message_id {
        Some(trigger) => {
            c.q("select content, attachments from messages where id = $1 and deleted_at is null")
                .bind(trigger)
                .opt()
                .await?
        }
        None => None,
    };
    let files = trigger.as_ref().map(|(_, files)| files.0.as_slice());
    let has_documents = !is_delegated && attached::may_be_cut(files.unwrap_or_default());
    if !has_documents
        && knowledge::attached_stores(c, agent, channel)
            .await?
            .is_empty()
    {
        return Ok(None);
    }
    if task.run_id.is_some() {
        let brief = briefs::find_brief(c, task.id).await?;
        return Ok(brief.map(|stored| stored.brief.message));
    }
    let content = trigger.map(|(content, _)| content);
    let content = content.filter(|_| task.input.0.chain.is_none());
    Ok(Some(content.unwrap_or_else(|| task.input.0.prompt.clone())))
}

/// Loads the context of a task, with the vector of its question. Returns `None` if the trigger message is missing or deleted. `c` must be a
/// snapshot of the database.
pub async fn load(
    c: &mut Conn,
    task: &Task,
    agent: &Resolved,
    settings: CompactionSettings,
    asked: VectorAnswer,
) -> Result<Option<Loaded>, DbError> {
    let Some(mut loaded) = load_by_kind(c, task, agent, settings, asked).await? else {
        return Ok(None);
    };
    // A brief, or an earlier attempt, can have given handles to passages, which keep them.
    let knowledge = &mut loaded.context.knowledge;
    let places: Vec<PassagePlace> = knowledge.iter().map(|passage| passage.place).collect();
    let numbers = handles::number_passages(c, task.id, &places).await?;
    for (passage, number) in knowledge.iter_mut().zip(numbers) {
        passage.number = number;
    }
    Ok(Some(loaded))
}

async fn load_by_kind(
    c: &mut Conn,
    task: &Task,
    agent: &Resolved,
    settings: CompactionSettings,
    asked: VectorAnswer,
) -> Result<Option<Loaded>, DbError> {
    if task.kind == TaskKind::Schedule {
        return load_scheduled(c, task, agent, settings, asked).await;
    }
    if let Some(run) = task.run_id {
        return load_step(c, task, run, agent, settings, asked).await;
    }
    let trigger: Option<Trigger> = match task.trigger_message_id {
        Some(trigger) => c
            .q("select id, seq, content, attachments, metadata, author_type = 'human' and coalesce(author_id = $2, FALSE) as is_by_requester \
                from messages where id = $1 and deleted_at is null")
            .bind(trigger)
            .bind(task.requested_by)
            .opt()
            .await?,
        // Work that was delegated by a schedule's task.
        None if task.kind == TaskKind::Delegate => {
            let prompt = task.input.0.prompt.clone();
            Some(Trigger::of_prompt(c, task, prompt, PromptWriter::Requester).await?)
        }
        None => None,
    };
    let Some(mut trigger) = trigger else {
        return Ok(None);
    };
    trigger.asked = asked;
    let target = task.queued_target();
    let mut order = Order {
        turn: asked_turn(c, task, &target).await?,
        step: task.input.0.chain,
        ..Order::default()
    };
    if trigger.metadata.0.api_key_id.is_none() && task.parent_task_id.is_some() {
        trigger.metadata.0.api_key_id = queue::key_of(c, task.id).await?;
    }
    if task.kind == TaskKind::Delegate {
        return load_delegated(c, task, target, trigger, agent, settings).await;
    }
    if order.is_own() {
        trigger.seq = queue::before_seq(c, task.id).await?.unwrap_or(trigger.seq);
        order.steers = steers::list(c, task.id).await?;
    }
    if order.step.is_some() {
        trigger.content.clone_from(&task.input.0.prompt);
    }
    let place = ReplyPlace {
        workspace: task.workspace_id,
        target,
        requester: task.requested_by,
    };
    Ok(Some(
        load_before(c, &place, trigger, order, agent, settings).await?,
    ))
}

/// Loads the context of a scheduled task, whose prompt replaces the trigger message. Returns `None` if its heartbeat no longer has a
/// prompt, or if its requester was erased.
async fn load_scheduled(
    c: &mut Conn,
    task: &Task,
    agent: &Resolved,
    settings: CompactionSettings,
    asked: VectorAnswer,
) -> Result<Option<Loaded>, DbError> {
    let Some((scheduled, target)) = Scheduled::of(task).zip(task.target()) else {
        return Ok(None);
    };
    let mut heartbeat = None;
    let (content, writer) = if scheduled.heartbeat {
        let Some(file) = files::heartbeat(c, target.agent).await? else {
            return Ok(None);
        };
        heartbeat = Some(authored::file(agent, HEARTBEAT, &file));
        (file.text, PromptWriter::Other)
    } else {
        (task.input.0.prompt.clone(), PromptWriter::Requester)
    };
    let trigger = Trigger {
        asked,
        ..Trigger::of_prompt(c, task, content, writer).await?
    };
    let place = ReplyPlace {
        workspace: task.workspace_id,
        target,
        requester: task.requested_by,
    };
    let mut loaded = load_before(c, &place, trigger, Order::default(), agent, settings).await?;
    loaded.context.ask.schedule = Some(scheduled);
    loaded.authored.sent.extend(heartbeat);
    // A prompt that runs repeatedly does not reveal the mood of its author.
    loaded.adapting = None;
    Ok(Some(loaded))
}

/// Loads the context of a delegated task. Returns `None` if its brief was removed.
async fn load_delegated(
    c: &mut Conn,
    task: &Task,
    target: TaskTarget,
    mut trigger: Trigger,
    agent: &Resolved,
    settings: CompactionSettings,
) -> Result<Option<Loaded>, DbError> {
    let Some(StoredBrief { text_id, brief }) = briefs::find_brief(c, task.id).await? else {
        return Ok(None);
    };
    let caller = match task.parent_task_id {
        Some(parent) => queue::find_task(c, parent).await?,
        None => None,
    };
    let from = match caller.and_then(|caller| caller.agent_id) {
        Some(caller) => BriefSender::Agent(shown_name(c, caller).await?),
        None => return Ok(None),
    };
    let options = DelegateOptions::of(task);
    let delegated = Delegated {
        from,
        brief,
        text_id,
        request: task.input.0.prompt.clone(),
        context: options.context,
    };
    let place = ReplyPlace {
        workspace: task.workspace_id,
        target,
        requester: task.requested_by,
    };
    trigger.attachments.0.clear();
    let mut loaded = match options.context {
        BriefContext::Brief => load_alone(c, &place, trigger, agent).await?,
        BriefContext::Conversation => {
            trigger.seq = queue::before_seq(c, task.id).await?.unwrap_or(trigger.seq);
            load_before(c, &place, trigger, Order::default(), agent, settings).await?
        }
    };
    loaded.context.ask.delegated = Some(delegated);
    // The answer goes to the caller, not to the requester.
    loaded.adapting = None;
    loaded.preset.stored = None;
    Ok(Some(loaded))
}

/// Loads the context of an agent in a step of a run. Returns `None` if its prompt or the run was removed. If the task is a reply, the
/// context begins with the thread of the run.
async fn load_step(
    c: &mut Conn,
    task: &Task,
    run: RunId,
    agent: &Resolved,
    settings: CompactionSettings,
    asked: VectorAnswer,
) -> Result<Option<Loaded>, DbError> {
    let brief = briefs::find_brief(c, task.id).await?;
    let name = run::workflow_name(c, run).await?;
    let Some((StoredBrief { text_id, brief }, name)) = brief.zip(name) else {
        return Ok(None);
    };
    let message = brief.message.clone();
    let trigger = Trigger {
        asked,
        ..Trigger::of_prompt(c, task, message, PromptWriter::Other).await?
    };
    let place = ReplyPlace {
        workspace: task.workspace_id,
        target: task.queued_target(),
        requester: task.requested_by,
    };
    let (mut loaded, context) = if task.kind == TaskKind::Reply {
        let order = Order {
            in_run: true,
            steers: steers::list(c, task.id).await?,
            ..Order::default()
        };
        let loaded = load_before(c, &place, trigger, order, agent, settings).await?;
        (loaded, BriefContext::Conversation)
    } else {
        let loaded = load_alone(c, &place, trigger, agent).await?;
        (loaded, BriefContext::Brief)
    };
    let ask = &mut loaded.context.ask;
    // The requester did not write the content.
    ask.content.clear();
    ask.delegated = Some(Delegated {
        from: BriefSender::Workflow(name),
        brief,
        text_id,
        request: String::new(),
        context,
    });
    loaded.adapting = None;
    loaded.preset.stored = None;
    Ok(Some(loaded))
}

/// Loads a context that contains nothing from the conversation.
async fn load_alone(
    c: &mut Conn,
    of: &ReplyPlace,
    trigger: Trigger,
    agent: &Resolved,
) -> Result<Loaded, DbError> {
    let (api_key, typed) = (trigger.metadata.0.api_key_id, trigger.typed());
    let readers = of.readers(&trigger);
    let skills = skills::load(c, &readers, agent).await?;
    let system = system::in_conversation(c, of.workspace, agent).await?;
    let system = system.with_skills(&skills.text);
    let ask = Ask {
        message_id: trigger.id,
        content: trigger.content,
        attachments: Vec::new(),
        files: Vec::new(),
        requester: find_requester(c, of.workspace, of.requester).await?,
        step: None,
        schedule: None,
        turn: None,
        delegated: None,
        asked_at: now(),
    };
    let context = Context::alone(system, agent.agent, ask);
    Ok(Loaded {
        context,
        readable: Vec::new(),
        pictures: Vec::new(),
        left_out: Vec::new(),
        memories: Recalled::default(),
        strategy: Strategy(Compaction::Off),
        preset: ReplyPreset::default(),
        adapting: None,
        view: View {
            start: None,
            sent: 0,
            sent_max: 0,
            is_due: false,
            has_segments: false,
        },
        trigger_seq: trigger.seq,
        api_key,
        typed,
        authored: AuthoredTexts {
            sent: with_skills(c, agent, skills.authored).await?,
            ..AuthoredTexts::default()
        },
        reasons: reasons_of_profile(agent),
    })
}

/// Loads what an agent would be told without a conversation. `c` must be a snapshot of the database.
pub async fn load_without_conversation(
    c: &mut Conn,
    place: &ReplyPlace,
    api_key: Option<ApiKeyId>,
    agent: &Resolved,
) -> Result<Loaded, DbError> {
    load_alone(c, place, Trigger::next(api_key), agent).await
}

/// Loads the context of the reply to a message that the requester might post now. `c` must be a snapshot of the database.
pub async fn load_next(
    c: &mut Conn,
    place: &ReplyPlace,
    api_key: Option<ApiKeyId>,
    agent: &Resolved,
    settings: CompactionSettings,
) -> Result<Loaded, DbError> {
    let trigger = Trigger::next(api_key);
    let mut loaded = load_before(c, place, trigger, Order::default(), agent, settings).await?;
    let context = &mut loaded.context;
    let people = &mut context.setting.participants;
    let is_requester = |person: &Participant| matches!(&person.author, Author::Human { id, .. } if *id == place.requester);
    if !people.iter().any(is_requester) {
        if people.len() == PARTICIPANTS_MAX {
            people.remove(0);
        }
        people.push(Participant {
            author: Author::Human {
                id: place.requester,
                name: context.ask.requester.name.clone(),
            },
            handle: context.ask.requester.handle.clone(),
        });
    }
    Ok(loaded)
}

/// Messages of a conversation that the prompt contains, and the summary that replaces older ones.
struct SentMessages {
    view: View,
    /// Messages, oldest first, including those of expanded segments.
    rows: Vec<Row>,
    summary: Option<Summary>,
    left_out: Vec<LeftOut>,
    /// Sequence number at which the older messages end; `None` if there are no older messages.
    older_end: Option<i64>,
}

impl SentMessages {
    async fn load(
        c: &mut Conn,
        conversation: Conversation,
        trigger_seq: i64,
        agent: AgentId,
        strategy: Strategy,
        order: &Order,
    ) -> Result<Self, DbError> {
        let view = View::find(c, conversation, trigger_seq, agent, strategy).await?;
        let mut rows = before(c, conversation, trigger_seq, view.sent).await?;
        if !order.is_own() {
            // Chain links and collaboration turns read all messages before their sequence number in order.
            rows.extend(later_replies(c, conversation, trigger_seq, agent).await?);
        }
        let rows = oldest_first(rows, &view);
        let (summary, expanded) = match view.start {
            Some(start) => view::summary(c, conversation, start).await?,
            None => (None, Vec::new()),
        };
        let left_out = left_out(c, conversation, trigger_seq, &rows, &expanded, &view).await?;
        let oldest = rows.iter().map(|row| row.seq).min();
        let window_start = view.start.or(oldest).unwrap_or(trigger_seq);
        let has_older = left_out.iter().any(|left| {
            matches!(
                left.reason,
                LeftOutReason::OlderThanNewest50
                    | LeftOutReason::Summarised
                    | LeftOutReason::NotSummarized
            )
        });
        let rows = expanded.into_iter().chain(rows);
        Ok(Self {
            view,
            rows: rows.filter(|row| !order.steers.contains(&row.id)).collect(),
            summary,
            left_out,
            older_end: has_older.then_some(window_start),
        })
    }

    /// Returns the number of older messages that no summary replaces.
    fn older(&self) -> u64 {
        let older = self.left_out.iter().find(|left| {
            matches!(
                left.reason,
                LeftOutReason::OlderThanNewest50 | LeftOutReason::NotSummarized
            )
        });
        older.map_or(0, |left| u64::try_from(left.count).unwrap_or_default())
    }

    /// Returns the sequence number of the first message, or that of the trigger message if there is none.
    fn first_seq(&self, trigger_seq: i64) -> i64 {
        let first = self.rows.iter().map(|row| row.seq).min();
        first.unwrap_or(trigger_seq)
    }
}

/// Recalls memory entries and old messages for a question.
async fn recalled(
    c: &mut Conn,
    of: &ReplyPlace,
    agent: &Resolved,
    trigger: &Trigger,
    sent: &SentMessages,
    origin: &Origin,
) -> Result<Recalled, DbError> {
    let summaries = sent.summary.iter().chain(&origin.summary);
    memory::recall::recall(
        c,
        &Recall {
            workspace: of.workspace,
            requester: of.requester,
            api_key: trigger.metadata.0.api_key_id,
            agent: agent.agent,
            handle: &agent.name,
            scopes: memory_scopes(agent),
            channel: of.target.channel,
            thread: of.target.thread,
            conversation: of.target.conversation(),
            trigger: trigger.id,
            trigger_seq: trigger.seq,
            question: &trigger.content,
            summary: &summaries.flat_map(Summary::entries).collect(),
            window_start: sent.older_end,
        },
    )
    .await
}

pub(super) fn memory_scopes(agent: &Resolved) -> Option<&MemoryScopes> {
    let memory = agent.profile.memory.as_ref();
    memory.and_then(|memory| memory.scopes.as_ref())
}

/// Reasons in an agent's profile why parts of its system text are missing.
fn reasons_of_profile(agent: &Resolved) -> Reasons {
    let profile = &agent.profile;
    let is_unapproved = profile.persona_id.is_some() && profile.persona_text.is_none();
    let reason = is_unapproved.then_some((SourceName::Persona, Because::NotApproved));
    reason.into_iter().collect()
}

/// Parts of a context that do not come from its conversation.
struct Surroundings {
    system: System,
    preset: ReplyPreset,
    adapting: Option<Adapting>,
    workspace: Option<WorkspaceContext>,
    about: Option<About>,
    notes: Option<AuthoredFile>,
    knowledge: Vec<KnowledgePassage>,
    /// Authors of the agent's skills.
    skills: Vec<AuthoredText>,
    reasons: Reasons,
}

impl Surroundings {
    async fn load(
        c: &mut Conn,
        of: &ReplyPlace,
        agent: &Resolved,
        trigger: &Trigger,
    ) -> Result<Self, DbError> {
        let target = of.target;
        let mut notes = files::notes(c, agent.agent).await?;
        let place = ContextPlace {
            workspace: of.workspace,
            channel: Some(target.channel),
            thread: Some(target.thread),
            reader: of.requester,
            scopes: memory_scopes(agent),
        };
        let readers = of.readers(trigger);
        let preset = preset(c, of, agent, &trigger.content).await?;
        let adapting = adapting(c, of, agent).await?;
        let sentences = adapting.as_ref().map_or("", |adapting| &adapting.text);
        let skills = skills::load(c, &readers, agent).await?;
        let system = system::in_conversation(c, of.workspace, agent).await?;
        let system = system.with_skills(&skills.text);
        let about = user_file::about(c, &readers).await?;
        let policy = policy::find(c, of.workspace).await?;
        let mut reasons = reasons_of_profile(agent);
        if notes.is_some() && guests::has_guests(c, of.workspace, target.channel).await? {
            notes = None;
            reasons.insert(SourceName::Notes, Because::Guests);
        }
        if about == RequesterFile::Personal {
            reasons.insert(SourceName::About, Because::Personal);
        }
        if adapting.is_none() {
            let (workspace, user) = (of.workspace, of.requester);
            let level = switches::stopped_by(c, &policy, workspace, user, &agent.profile).await?;
            reasons.insert(SourceName::Adaptation, level.into());
        }
        if !policy.workspace_context.enabled {
            reasons.insert(SourceName::Workspace, Because::OffWorkspace);
        }
        let prompting = agent.profile.prompting.as_ref();
        if prompting.and_then(|prompting| prompting.profile.as_deref()) == Some(NONE) {
            reasons.insert(SourceName::Addons, Because::OffAgent);
        }
        Ok(Self {
            system: system.with_addons(&preset.text).with_adaptation(sentences),
            preset,
            workspace: workspace::load(c, &place).await?,
            about: about_of(about, of.requester),
            notes,
            knowledge: knowledge::find(c, agent, &readers, trigger.question()).await?,
            adapting,
            skills: skills.authored,
            reasons,
        })
    }
}

/// Parts of a context that come before the messages of a conversation.
struct Beginning {
    setting: Setting,
    origin: Origin,
    /// The first message of the thread, unless it is already among the messages that follow.
    root: Option<HistoryMessage>,
}

impl Beginning {
    /// `first_seq` is the sequence number of the first conversation message in the prompt.
    async fn load(
        c: &mut Conn,
        target: TaskTarget,
        strategy: Strategy,
        base: Option<VariantBase>,
        first_seq: i64,
    ) -> Result<Self, DbError> {
        let (setting, thread_root) = setting(c, target).await?;
        let origin = match (target.fork, base) {
            (Some(fork), _) => origin(c, fork, strategy).await?,
            (None, Some(base)) => {
                Origin::before(c, base.conversation(), base.seq, strategy).await?
            }
            (None, None) => Origin::default(),
        };
        let root = match (target.fork, base) {
            (Some(_), _) if origin.background.is_empty() => None,
            (Some(_), _) => root_before(c, thread_root, origin.first_seq).await?,
            (None, Some(base)) if !origin.background.is_empty() => {
                let root = root_of(c, base.thread).await?;
                root_before(c, root, origin.first_seq).await?
            }
            (None, _) => root_before(c, thread_root, first_seq).await?,
        };
        Ok(Self {
            setting,
            origin,
            root,
        })
    }
}

fn history_before(rows: Vec<Row>, trigger: &Trigger, order: &Order) -> Vec<HistoryMessage> {
    // The goal of a collaboration comes last in the prompt.
    let is_before = |row: &Row| order.turn.is_none() || row.id != trigger.id;
    let rows = rows.into_iter().filter(is_before);
    rows.map(Row::history_message).collect()
}

/// Loads the context of the reply to a message, including the messages before it.
async fn load_before(
    c: &mut Conn,
    of: &ReplyPlace,
    trigger: Trigger,
    order: Order,
    agent: &Resolved,
    settings: CompactionSettings,
) -> Result<Loaded, DbError> {
    let conversation = of.target.conversation();
    let place = StrategyPlace::of(of.workspace, &of.target);
    let (strategy, uncompacted_by) = Strategy::find(c, settings, agent, place).await?;
    let sent =
        SentMessages::load(c, conversation, trigger.seq, agent.agent, strategy, &order).await?;
    let first_seq = sent.first_seq(trigger.seq);
    let base = find_base(c, conversation).await?;
    let mut start = Beginning::load(c, of.target, strategy, base, first_seq).await?;
    let mut people = participants(c, of.workspace, conversation, trigger.seq, agent.agent).await?;
    if let Some(base) = base {
        let (first, seq) = (base.conversation(), base.seq - 1);
        let earlier = participants(c, of.workspace, first, seq, agent.agent).await?;
        people = joined(earlier, people);
    }
    start.setting.participants = people;
    let requester = find_requester(c, of.workspace, of.requester).await?;
    let recalled = recalled(c, of, agent, &trigger, &sent, &start.origin).await?;
    let shown: HashSet<MessageId> = (sent.rows.iter().map(|row| row.id))
        .chain(start.root.as_ref().map(|root| root.message_id))
        .collect();
    let found = &recalled.messages;
    let old = old_messages(c, conversation, found, &trigger.content, &shown).await?;
    let old_messages = with_next(c, conversation, old, trigger.seq, &shown).await?;
    let around = Surroundings::load(c, of, agent, &trigger).await?;
    let asked = FileQuestion {
        reader: FileReader {
            workspace: of.workspace,
            user: of.requester,
            shared_in: None,
        },
        question: trigger.question(),
    };
    let readable = attached::readable(c, &asked, &trigger.attachments.0).await?;
    let left_out = sent.older();
    let (trigger_seq, api_key) = (trigger.seq, trigger.metadata.0.api_key_id);
    let typed = trigger.typed();
    let mut reasons = around.reasons;
    let levels = [
        (SourceName::Summary, uncompacted_by),
        (SourceName::Memories, recalled.stopped_by),
    ];
    for (source, level) in levels {
        reasons.extend(level.map(|level| (source, Because::from(level))));
    }
    let used = recalled.used.iter().map(|entry| entry.id);
    let authored = AuthoredTexts {
        sent: with_skills(c, agent, around.skills).await?,
        notes: (around.notes.as_ref()).map(|notes| authored::notes(agent, notes)),
        entries: authored::entries(c, agent, used).await?,
    };
    let SentMessages {
        view,
        rows,
        summary,
        ..
    } = sent;
    let context = Context {
        system: around.system,
        agent_id: agent.agent,
        setting: start.setting,
        root: start.root,
        background_left_out: start.origin.left_out,
        background_summary: start.origin.summary,
        background: start.origin.background,
        fork_header: start.origin.header,
        left_out,
        gap: if view.is_due || view.has_segments {
            Gap::NotSummarized
        } else {
            Gap::LeftOut
        },
        summary,
        history: history_before(rows, &trigger, &order),
        workspace: around.workspace,
        about: around.about,
        notes: around.notes.map(|file| Notes {
            agent: agent.shown_name.clone(),
            text: file.text,
        }),
        memories: recalled.used.iter().map(remembered).collect(),
        old_messages,
        knowledge: around.knowledge,
        pictures: Vec::new(),
        ask: ask_of(trigger, order, requester),
    };
    let pictures = pictures::find_pictures(c, &context).await?;
    Ok(Loaded {
        context,
        readable,
        pictures,
        left_out: sent.left_out,
        memories: recalled,
        strategy,
        preset: around.preset,
        adapting: around.adapting,
        view,
        trigger_seq,
        api_key,
        typed,
        authored,
        reasons,
    })
}

/// Parts of an agent that people wrote, and its skills.
async fn with_skills(
    c: &mut Conn,
    agent: &Resolved,
    skills: Vec<AuthoredText>,
) -> Result<Vec<AuthoredText>, DbError> {
    let mut sent = authored::parts(c, agent.agent, agent.version).await?;
    sent.extend(skills);
    Ok(sent)
}

fn ask_of(trigger: Trigger, order: Order, requester: Requester) -> Ask {
    Ask {
        message_id: trigger.id,
        content: trigger.content,
        attachments: told(trigger.attachments.0),
        files: Vec::new(),
        requester,
        step: order.step,
        turn: order.turn,
        schedule: None,
        delegated: None,
        asked_at: now(),
    }
}

/// Finds the agent's adaptation to the requester.
async fn adapting(
    c: &mut Conn,
    of: &ReplyPlace,
    agent: &Resolved,
) -> Result<Option<Adapting>, DbError> {
    let key = StateKey {
        workspace: of.workspace,
        user: of.requester,
        agent: agent.agent,
        thread: of.target.thread,
        fork: of.target.fork,
    };
    Adapting::find(c, &key, of.target.channel, &agent.profile).await
}

/// Finds the preset for the reply to a message.
pub(super) async fn preset(
    c: &mut Conn,
    of: &ReplyPlace,
    agent: &Resolved,
    message: &str,
) -> Result<ReplyPreset, DbError> {
    let target = of.target;
    let mode = mode_of(c, &agent.name, target.channel, target.fork.is_some()).await?;
    let conversation = target.conversation().id();
    ReplyPreset::find(c, of.workspace, conversation, agent, &mode, message).await
}

/// Loads the best matches among messages that the prompt does not contain otherwise, each as a passage around its first match.
async fn old_messages(
    c: &mut Conn,
    conversation: Conversation,
    found: &[OldMatch],
    question: &str,
    shown: &HashSet<MessageId>,
) -> Result<Vec<(i64, OldMessage)>, DbError> {
    let best = &found[..found.len().min(OLD_READ_MAX)];
    if best.is_empty() {
        return Ok(Vec::new());
    }
    let mut rows = history::list(c, conversation, best.iter().map(|found| found.seq)).await?;
    rows.retain(|row| !shown.contains(&row.id));
    let old = best.iter().filter_map(|found| {
        let row = rows.iter().find(|row| row.seq == found.seq)?;
        let old = OldMessage {
            matched: found.matched,
            text: highlight::passage(&row.shown(), question, OLD_MESSAGE_CHARS_MAX),
            message: row.clone().history_message(),
        };
        Some((row.seq, old))
    });
    Ok(old.take(OLD_MESSAGES_MAX).collect())
}

/// Adds the messages that follow short old messages, because an answer often lacks the words of its question. Each old message is
/// given with its sequence number. A message and the ones added to it share the space of one passage.
async fn with_next(
    c: &mut Conn,
    conversation: Conversation,
    old: Vec<(i64, OldMessage)>,
    trigger_seq: i64,
    shown: &HashSet<MessageId>,
) -> Result<Vec<OldMessage>, DbError> {
    let mut known = shown.clone();
    known.extend(old.iter().map(|(_, old)| old.message.message_id));
    let mut all = Vec::with_capacity(old.len());
    for (seq, message) in old {
        let mut room = OLD_MESSAGE_CHARS_MAX.saturating_sub(message.text.chars().count());
        all.push(message);
        let range = SeqRange {
            from: seq + 1,
            to: trigger_seq - 1,
        };
        for row in history::between(c, conversation, range, NEXT_MESSAGES_MAX).await? {
            let text = row.shown();
            let size = text.chars().count();
            if size > room || !known.insert(row.id) {
                break;
            }
            room -= size;
            all.push(OldMessage {
                matched: 0,
                text,
                message: row.history_message(),
            });
        }
    }
    Ok(all)
}

fn about_of(file: RequesterFile, requester: UserId) -> Option<About> {
    match file {
        RequesterFile::Read(text, visibility) => Some(About {
            text,
            only_user: (visibility == UserFileVisibility::Direct).then_some(requester),
        }),
        RequesterFile::Absent | RequesterFile::Personal => None,
    }
}

pub(super) fn remembered(entry: &RecalledEntry) -> Memory {
    Memory {
        id: entry.id,
        kind: entry.kind.as_str(),
        person: entry.person_id.zip(entry.person.clone()),
        created_at: entry.created_at,
        text: entry.text.clone(),
        only_user: entry.user_id,
    }
}

/// Maximum number of matching old messages in a prompt, and of candidates that are read to find them.
const OLD_MESSAGES_MAX: usize = 4;
const OLD_READ_MAX: usize = 12;
/// Maximum number of messages that are added to an old message.
const NEXT_MESSAGES_MAX: usize = 2;
/// Maximum size of an old message in the prompt, including the messages that are added to it.
const OLD_MESSAGE_CHARS_MAX: usize = 300;
/// Number of the most recent messages whose authors count as participants.
const PARTICIPANTS_AMONG: i64 = 1_000;

/// Returns the setting of a conversation without its participants, and the ID of the thread's first message. The ID is `None` for a
/// thread that a scheduled reply will start.
async fn setting(
    c: &mut Conn,
    target: TaskTarget,
) -> Result<(Setting, Option<MessageId>), DbError> {
    let (channel, thread_title, root): (Option<String>, Option<String>, Option<MessageId>) = c
        .q("select case when h.kind = 'direct' then null else h.name end, t.title, t.root_message_id \
            from channels h left join threads t on t.id = $1 where h.id = $2")
        .bind(target.thread)
        .bind(target.channel)
        .one()
        .await?;
    let fork: Option<(Option<String>, ForkContext)> = match target.fork {
        // A title derived from the forked message would only repeat that message.
        Some(fork) => {
            c.q("select case when title_from is null then title end, context from forks where id = $1")
                .bind(fork)
                .opt()
                .await?
        }
        None => None,
    };
    let sees_thread = fork
        .as_ref()
        .is_none_or(|(_, context)| *context == ForkContext::Thread);
    let setting = Setting {
        channel,
        thread_title: thread_title.filter(|_| sees_thread),
        root_id: root,
        is_fork: target.fork.is_some(),
        fork_title: fork.and_then(|(title, _)| title),
        participants: Vec::new(),
    };
    Ok((setting, root))
}

#[derive(sqlx::FromRow)]
struct ParticipantRow {
    author_type: AuthorKind,
    author_id: uuid::Uuid,
    name: Option<String>,
    handle: Option<String>,
}

/// Lists the authors of recent messages up to the trigger message, except for the invoked agent. If there are too many, those who
/// joined most recently are returned. They are sorted by their first message.
async fn participants(
    c: &mut Conn,
    workspace: WorkspaceId,
    conversation: Conversation,
    trigger_seq: i64,
    agent: AgentId,
) -> Result<Vec<Participant>, DbError> {
    let rows: Vec<ParticipantRow> = c
        .q(concat!(
                "select x.author_type, x.author_id, coalesce(u.name, a.summary ->> 'display_name', a.name, \
                 (select n.name from agent_names n where n.agent_id = x.author_id)) as name, \
                 coalesce(h.handle, a.name) as handle from \
                 (select y.author_type, y.author_id, min(y.seq) as first_seq from \
                  (select m.author_type, m.author_id, m.seq from messages m where m.conversation_id = $1 and m.seq <= $2",
                said!(),
                "order by m.seq desc limit $5) y where y.author_id is not null and y.author_id <> $3 \
                 group by y.author_type, y.author_id order by first_seq desc limit $6) x \
                 left join users u on x.author_type in ('human', 'bot') and u.id = x.author_id \
                 left join members h on x.author_type = 'human' and h.user_id = x.author_id and h.workspace_id = $4 \
                 left join agents a on x.author_type = 'agent' and a.id = x.author_id \
                 order by x.first_seq"
        ))
        .bind(conversation.id())
        .bind(trigger_seq)
        .bind(agent)
        .bind(workspace)
        .bind(PARTICIPANTS_AMONG)
        .bind(i64::try_from(PARTICIPANTS_MAX).unwrap_or(i64::MAX))
        .all()
        .await?;
    let rows = rows.into_iter().map(|row| Participant {
        author: author(row.author_type, row.author_id, row.name),
        handle: row.handle,
    });
    Ok(rows.collect())
}

/// The participants of a variant: those of the first chat, and those who are new. If there are too many, the last ones are returned.
fn joined(mut earlier: Vec<Participant>, later: Vec<Participant>) -> Vec<Participant> {
    for person in later {
        if earlier.iter().all(|known| known.author != person.author) {
            earlier.push(person);
        }
    }
    let surplus = earlier.len().saturating_sub(PARTICIPANTS_MAX);
    earlier.drain(..surplus);
    earlier
}

/// ID of the first message of a thread.
async fn root_of(c: &mut Conn, thread: ThreadId) -> Result<Option<MessageId>, DbError> {
    let found: Option<(MessageId,)> = c
        .q("select root_message_id from threads where id = $1")
        .bind(thread)
        .opt()
        .await?;
    Ok(found.map(|(id,)| id))
}

/// Finds the thread's first message if it was posted before `seq` and has not been deleted.
async fn root_before(
    c: &mut Conn,
    root: Option<MessageId>,
    seq: i64,
) -> Result<Option<HistoryMessage>, DbError> {
    let found: Option<Row> = c
        .q(concat!(
            row_sql!("CAST(null AS BIGINT)", "where m.id = $1 and m.seq < $2"),
            said!()
        ))
        .bind(root)
        .bind(seq)
        .opt()
        .await?;
    Ok(found.map(Row::history_message))
}

/// Lists an agent's finished replies to earlier messages. They are placed before the trigger message even if they were posted later.
async fn later_replies(
    c: &mut Conn,
    conversation: Conversation,
    trigger_seq: i64,
    agent: AgentId,
) -> Result<Vec<Row>, DbError> {
    c.q(concat!(
            row_sql!(
                "p.seq",
                "join messages p on p.id = m.parent_id and p.conversation_id = m.conversation_id and p.seq < $2 \
                 where m.conversation_id = $1 and m.seq > $2 and m.author_type = 'agent' and m.author_id = $3 and m.kind = 'text'"
            ),
            said!(),
            "order by m.seq limit $4"
        ))
        .bind(conversation.id())
        .bind(trigger_seq)
        .bind(agent)
        .bind(i64::try_from(HISTORY_MAX).unwrap_or(i64::MAX))
        .all()
        .await
}

/// Sorts messages oldest first, and drops the oldest ones that the view does not select.
fn oldest_first(mut rows: Vec<Row>, view: &View) -> Vec<Row> {
    rows.sort_by_key(Row::order);
    let surplus = match view.start {
        // Replies that are placed earlier do not move the start.
        Some(start) => rows.iter().take_while(|row| row.order().0 < start).count(),
        None => rows.len().saturating_sub(view.sent_max),
    };
    rows.drain(..surplus);
    rows
}

/// Lists the newest messages of a conversation before a sequence number, newest first.
pub async fn newest(
    c: &mut Conn,
    conversation: Conversation,
    seq: i64,
    count_max: usize,
) -> Result<Vec<HistoryMessage>, DbError> {
    let rows = before(c, conversation, seq, count_max).await?;
    Ok(rows.into_iter().map(Row::history_message).collect())
}

/// The part of the thread that the fork's agent can see, or of the first chat with which a variant begins.
#[derive(Default)]
struct Origin {
    header: Option<ForkHeader>,
    background: Vec<HistoryMessage>,
    /// `seq` of the first message in `background`.
    first_seq: i64,
    /// Number of messages of the thread before `background` that no summary covers.
    left_out: u64,
    /// Summary of messages before `background`.
    summary: Option<Summary>,
}

impl Origin {
    /// Loads the messages of a conversation before a sequence number.
    async fn before(
        c: &mut Conn,
        conversation: Conversation,
        seq: i64,
        strategy: Strategy,
    ) -> Result<Self, DbError> {
        let mut origin = Self::default();
        let mut rows = before(c, conversation, seq, HISTORY_MAX).await?;
        rows.reverse();
        let start = rows.first().map_or(seq, |row| row.seq);
        if rows.len() == HISTORY_MAX {
            let said = said_before(c, conversation, seq).await?;
            let mut known = i64::try_from(rows.len()).unwrap_or(i64::MAX);
            if strategy.is_on() {
                let (summary, expanded) = view::summary(c, conversation, start).await?;
                known += store::count_covered(c, conversation.id(), start).await?;
                origin.summary = summary.map(|summary| Summary {
                    of: Summarized::Background,
                    ..summary
                });
                rows = expanded.into_iter().chain(rows).collect();
            }
            origin.left_out = u64::try_from(said - known).unwrap_or_default();
        }
        origin.first_seq = rows.first().map_or(seq, |row| row.seq);
        origin
            .background
            .extend(rows.into_iter().map(Row::history_message));
        Ok(origin)
    }

    /// Puts the beginning of a variant before the rest of it, unless older messages of the rest are missing.
    fn after(self, beginning: Self) -> Self {
        if self.left_out > 0 || self.summary.is_some() {
            return self;
        }
        Self {
            background: beginning
                .background
                .into_iter()
                .chain(self.background)
                .collect(),
            ..beginning
        }
    }
}

async fn origin(c: &mut Conn, fork: ForkId, strategy: Strategy) -> Result<Origin, DbError> {
    let (thread, message, context, description): (
        ThreadId,
        MessageId,
        ForkContext,
        Option<String>,
    ) = c
        .q("select thread_id, message_id, context, description from forks where id = $1")
        .bind(fork)
        .one()
        .await?;
    let forked: Option<Row> = c
        .q(row_sql!("CAST(null AS BIGINT)", "where m.id = $1"))
        .bind(message)
        .opt()
        .await?;
    let Some(forked) = forked else {
        return Ok(Origin::default());
    };
    let shown = forked.shown();
    let mut header = ForkHeader {
        message_id: message,
        author_name: forked
            .author_name
            .clone()
            .unwrap_or_else(|| "Deleted account".to_owned()),
        forked_content: Some(if shown.is_empty() {
            DELETED.to_owned()
        } else {
            shown.clone()
        }),
        forked: None,
        description,
    };
    let mut origin = Origin::default();
    if context == ForkContext::Thread {
        let conversation = Conversation::Thread(thread);
        origin = Origin::before(c, conversation, forked.seq, strategy).await?;
        if let Some(base) = find_base(c, conversation).await? {
            let first = base.conversation();
            origin = origin.after(Origin::before(c, first, base.seq, strategy).await?);
        }
        if !shown.is_empty() {
            header.forked_content = None;
            origin.background.push(forked.history_message());
        }
    } else if !fork_quote(&shown).1 {
        header.forked = Some(forked.history_message());
    }
    origin.header = Some(header);
    Ok(origin)
}

/// Lists messages before the trigger message that the prompt does not contain, grouped by reason. Messages of `expanded` segments are
/// in the prompt, so they are not listed. The cost does not depend on the length of the thread.
async fn left_out(
    c: &mut Conn,
    conversation: Conversation,
    trigger_seq: i64,
    used: &[Row],
    expanded: &[Row],
    view: &View,
) -> Result<Vec<LeftOut>, DbError> {
    let oldest = used.iter().map(|row| row.seq).min();
    let oldest = view.start.or(oldest).unwrap_or(trigger_seq);
    let passed_over = passed_over(c, conversation, trigger_seq, oldest).await?;
    let mut reasons: Vec<LeftOut> = Vec::new();
    let older: Vec<MessageId> = before(c, conversation, oldest, LEFT_OUT_IDS_MAX)
        .await?
        .into_iter()
        .map(|row| row.id)
        .filter(|id| !expanded.iter().any(|row| row.id == *id))
        .collect();
    if !older.is_empty() {
        let named = i64::try_from(older.len()).unwrap_or(0);
        let said = said_before(c, conversation, trigger_seq).await?;
        let sent = used.iter().filter(|row| row.seq < trigger_seq).count() + expanded.len();
        let count = (said - i64::try_from(sent).unwrap_or(0)).max(named);
        let covered = match view.start {
            Some(start) => store::count_summarized(c, conversation.id(), start)
                .await?
                .min(count),
            None => 0,
        };
        let parts = match view.start {
            Some(_) => [
                (LeftOutReason::Summarised, covered),
                (LeftOutReason::NotSummarized, count - covered),
            ],
            None if view.is_due && !view.has_segments => [
                (LeftOutReason::Summarised, 0),
                (LeftOutReason::NotSummarized, count),
            ],
            None => [
                (LeftOutReason::Summarised, 0),
                (LeftOutReason::OlderThanNewest50, count),
            ],
        };
        for (reason, count) in parts.into_iter().filter(|(_, count)| *count > 0) {
            reasons.push(LeftOut {
                reason,
                count,
                message_ids: older.clone(),
            });
        }
    }
    for reason in [
        LeftOutReason::Deleted,
        LeftOutReason::Notice,
        LeftOutReason::Streaming,
        LeftOutReason::Superseded,
    ] {
        let ids: Vec<MessageId> = passed_over
            .iter()
            .filter(|(_, why)| *why == reason)
            .map(|(id, _)| *id)
            .collect();
        if !ids.is_empty() {
            reasons.push(LeftOut {
                reason,
                count: i64::try_from(ids.len()).unwrap_or(i64::MAX),
                message_ids: ids.into_iter().take(LEFT_OUT_IDS_MAX).collect(),
            });
        }
    }
    Ok(reasons)
}

/// Lists messages between the oldest one in the prompt and the trigger message that do not belong to the history, each with the
/// reason, newest first.
async fn passed_over(
    c: &mut Conn,
    conversation: Conversation,
    trigger_seq: i64,
    oldest: i64,
) -> Result<Vec<(MessageId, LeftOutReason)>, DbError> {
    c.q(
        "select m.id, case when m.deleted_at is not null then 'deleted' when m.kind = 'notice' then 'notice' \
         when m.kind = 'resolution' then 'superseded' else 'streaming' end from messages m where m.conversation_id = $1 \
         and m.seq < $2 and m.seq > $3 and (m.deleted_at is not null or m.kind = 'notice' or m.state = 'streaming' \
           or (m.kind = 'resolution' and exists (select 1 from resolutions r where r.message_id = m.id \
             and r.status = 'superseded'))) order by m.seq desc limit 200",
    )
    .bind(conversation.id())
    .bind(trigger_seq)
    .bind(oldest)
    .all()
    .await
}

/// Counts history messages in a conversation before the trigger message. Subtracts the messages since the trigger from the
/// thread's counter, which avoids counting a long thread.
async fn said_before(
    c: &mut Conn,
    conversation: Conversation,
    trigger_seq: i64,
) -> Result<i64, DbError> {
    let q = match conversation {
        Conversation::Thread(_) => c.q(
            "select t.reply_count + 1 - (select count(*) from messages m where m.conversation_id = t.id \
             and m.seq >= $2 and m.deleted_at is null and m.kind <> 'notice') from threads t where t.id = $1",
        ),
        Conversation::Fork(_) => c.q(concat!(
            "select count(*) from messages m where m.conversation_id = $1 and m.seq < $2",
            said!()
        )),
    };
    q.bind(conversation.id()).bind(trigger_seq).value().await
}
