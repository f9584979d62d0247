"""Losses as pure functions of logits and observed labels, for use in any training loop. Imports torch only.

    from spml.losses import gr_loss

    loss = gr_loss(model(images), positive_class)
    loss.backward()

Each of them is an `nn.Module`, too (`GRLoss(q2=0.5)`), for loops that expect one.

Notation in the docstrings: B samples, C classes, logit z, p = sigmoid(z), l+ = -log p, l- = -log(1 - p).
"""

from .assume_negative import an_loss, an_ls_loss, iu_loss, n_ls_loss, wan_loss
from .csl import csl_loss
from .em_apl import em_apl_loss
from .entropy import em_loss, entmin_loss
from .expected import epr_loss, epr_regulariser_loss, role_loss
from .focal import asl_loss, focal_loss
from .fused import fused_linear_loss
from .hill import hill_loss, splc_loss
from .lac import lac_loss
from .large import large_loss_mask, ll_loss
from .las import (
    balanced_weight,
    consistency_loss,
    cost_sensitive_loss,
    las_loss,
    lasd_full_loss,
    lasd_loss,
)
from .logsum import high_rank_loss, opml_loss, soft_opml_loss, zlpr_loss
from .mime import gaussian_kl_loss, mime_loss
from .modules import (
    ANLoss,
    ANLSLoss,
    ASLLoss,
    CostSensitiveLoss,
    CRISPLoss,
    CSLLoss,
    EMAPLLoss,
    EMLoss,
    EntMinLoss,
    EPRLoss,
    FocalLoss,
    GPRLoss,
    GRLoss,
    HillLoss,
    IgnoreLoss,
    IULoss,
    LASDFullLoss,
    LASDLoss,
    LASLoss,
    LLLoss,
    LossModule,
    MIMELoss,
    NLSLoss,
    OPMLLoss,
    PLCLoss,
    PRLoss,
    PULoss,
    PUMLCLoss,
    ROLELoss,
    SHOWLoss,
    SMILEImageLoss,
    SMILELoss,
    SoftmaxLoss,
    SoftOPMLLoss,
    SPLCLoss,
    VLPLLoss,
    WANLoss,
    ZLPRLoss,
)
from .pairwise import pr_loss
from .penalty import weight_penalty_loss
from .pseudo import gpr_loss, vlpl_loss
from .pu import crisp_loss, crisp_priors, negative_risk, pu_loss
from .pumlc import mixed_consistency_loss, mixed_log_target, pumlc_loss
from .robust import gr_loss
from .show import expected_labels, show_loss
from .smile import beta_kl_loss, smile_image_loss, smile_loss, smile_vae_loss
from .softmax import softmax_loss
from .views import ignore_loss, plc_loss

__all__ = [
    "ANLSLoss",
    "ANLoss",
    "ASLLoss",
    "CRISPLoss",
    "CSLLoss",
    "CostSensitiveLoss",
    "EMAPLLoss",
    "EMLoss",
    "EPRLoss",
    "EntMinLoss",
    "FocalLoss",
    "GPRLoss",
    "GRLoss",
    "HillLoss",
    "IULoss",
    "IgnoreLoss",
    "LASDFullLoss",
    "LASDLoss",
    "LASLoss",
    "LLLoss",
    "LossModule",
    "MIMELoss",
    "NLSLoss",
    "OPMLLoss",
    "PLCLoss",
    "PRLoss",
    "PULoss",
    "PUMLCLoss",
    "ROLELoss",
    "SHOWLoss",
    "SMILEImageLoss",
    "SMILELoss",
    "SPLCLoss",
    "SoftOPMLLoss",
    "SoftmaxLoss",
    "VLPLLoss",
    "WANLoss",
    "ZLPRLoss",
    "an_loss",
    "an_ls_loss",
    "asl_loss",
    "balanced_weight",
    "beta_kl_loss",
    "consistency_loss",
    "cost_sensitive_loss",
    "crisp_loss",
    "crisp_priors",
    "csl_loss",
    "em_apl_loss",
    "em_loss",
    "entmin_loss",
    "epr_loss",
    "epr_regulariser_loss",
    "expected_labels",
    "focal_loss",
    "fused_linear_loss",
    "gaussian_kl_loss",
    "gpr_loss",
    "gr_loss",
    "high_rank_loss",
    "hill_loss",
    "ignore_loss",
    "iu_loss",
    "lac_loss",
    "large_loss_mask",
    "las_loss",
    "lasd_full_loss",
    "lasd_loss",
    "ll_loss",
    "mime_loss",
    "mixed_consistency_loss",
    "mixed_log_target",
    "n_ls_loss",
    "negative_risk",
    "opml_loss",
    "plc_loss",
    "pr_loss",
    "pu_loss",
    "pumlc_loss",
    "role_loss",
    "show_loss",
    "smile_image_loss",
    "smile_loss",
    "smile_vae_loss",
    "soft_opml_loss",
    "softmax_loss",
    "splc_loss",
    "vlpl_loss",
    "wan_loss",
    "weight_penalty_loss",
    "zlpr_loss",
]
