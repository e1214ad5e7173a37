//! What is on its way between a replica and the store.

use baton::protocol::{
    Announcement, CampaignReply, CampaignRequest, Input, NoReply, ReleaseReply, ReleaseRequest, RenewReply,
    RenewRequest, RequestId, SessionId,
};

#[derive(Clone, Debug, Hash)]
pub enum Request {
    Campaign(CampaignRequest),
    Renew(RenewRequest),
    Release(ReleaseRequest),
}

#[derive(Clone, Copy, Debug, Hash)]
pub enum Kind {
    Campaign,
    Renew,
    Release,
}

impl Kind {
    /// How its sender hears that no answer has come.
    pub fn unanswered(self, id: RequestId) -> Input {
        let failure = NoReply::new("no answer in time");
        match self {
            Self::Campaign => Input::Campaigned { id, reply: Err(failure) },
            Self::Renew => Input::Renewed { id, reply: Err(failure) },
            Self::Release => Input::Released { id, reply: Err(failure) },
        }
    }
}

impl Request {
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Campaign(_) => Kind::Campaign,
            Self::Renew(_) => Kind::Renew,
            Self::Release(_) => Kind::Release,
        }
    }
}

#[derive(Clone, Debug, Hash)]
pub enum Content {
    Request(RequestId, Request),
    Answer(RequestId, Input),
    News(Announcement),
}

/// Where the order is kept: two connections of each process, and both directions of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Requests,
    Answers,
    News,
}

/// The task of one role in one process: its answers are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    pub session: SessionId,
    /// How many times a reload has brought the role back.
    pub number: u8,
}

#[derive(Clone, Debug, Hash)]
pub struct Message {
    /// Which replica sent it, or gets it.
    pub replica: usize,
    pub task: Task,
    /// Time passes while it is on its way, and others overtake it.
    pub is_late: bool,
    pub content: Content,
}

impl Message {
    pub const fn link(&self) -> (usize, Link) {
        let link = match self.content {
            Content::Request(..) => Link::Requests,
            Content::Answer(..) => Link::Answers,
            Content::News(_) => Link::News,
        };
        (self.replica, link)
    }

    /// In few words, for a story.
    pub fn words(&self) -> String {
        let replica = name(self.replica);
        match &self.content {
            Content::Request(_, request) => format!("{replica}'s {}", request_words(request)),
            Content::Answer(_, answer) => format!("the answer to {replica}: {}", answer_words(answer)),
            Content::News(news) => {
                let Announcement { token, count, holder, .. } = news;
                let kind = news.kind.as_str();
                format!("news for {replica}: {kind} of {}, token {token}, count {count}", holder.identity)
            }
        }
    }
}

pub const fn name(replica: usize) -> &'static str {
    ["r1", "r2"][replica]
}

fn request_words(request: &Request) -> String {
    match request {
        Request::Campaign(request) => {
            let known = request.knowledge.map_or("knows nothing".to_owned(), |known| {
                let (version, still) = (known.version, known.unchanged_for);
                format!("has known token {}, count {} for {still:?}", version.token, version.count)
            });
            format!("campaign {} ({known})", request.candidate.attempt.0)
        }
        Request::Renew(request) => format!("renewal of token {}, count {}", request.token, request.count),
        Request::Release(request) => format!("release of token {}", request.token),
    }
}

fn answer_words(answer: &Input) -> String {
    match answer {
        Input::Campaigned { reply: Ok(stamped), .. } => match &stamped.reply {
            CampaignReply::Granted { token, count } => format!("granted, token {token}, count {count}"),
            CampaignReply::Held { holder, token, remaining, .. } => {
                format!("{} has it, token {token}, for {remaining:?}", holder.identity)
            }
            CampaignReply::Guarded { cause, remaining, .. } => format!("guarded ({cause}) for {remaining:?}"),
            CampaignReply::LookAgain { span, .. } => format!("look again when nothing changed for {span:?}"),
            other @ (CampaignReply::Divided { .. } | CampaignReply::Stale { .. }) => format!("{other:?}"),
        },
        Input::Renewed { reply: Ok(stamped), .. } => match &stamped.reply {
            RenewReply::Renewed { count, reasserted, .. } => {
                format!("renewed{}, count {count}", if *reasserted { " (put back)" } else { "" })
            }
            RenewReply::Lost { token, .. } => format!("lost, the record's token is {token}"),
        },
        Input::Released { reply: Ok(stamped), .. } => match stamped.reply {
            ReleaseReply::Released => "released".to_owned(),
            ReleaseReply::NotHeld => "not held".to_owned(),
        },
        other => format!("{other:?}"),
    }
}
